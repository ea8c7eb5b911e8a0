#include "collect/finish.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "collect/finish_internal.h"

#define LOG_DOMAIN "collect"
#include "base/log.h"

#define MANY 32u /* processes */

/* That sites can be titled anew in the same way. */
static struct error *put_alloc_fns(struct finishing *finishing)
{
	const struct collect_finish_options *options = finishing->options;
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	for (size_t i = 0; i < options->alloc_fn_count; i++)
		strbuf_printf(&text, "%s%s", i > 0 ? "\n" : "", options->alloc_fns[i]);
	TRY(strbuf_result(&text));
	return text.length ? store_put_meta_text(finishing->writer, "alloc_fn", text.text) : NULL;
}

/* Of a parallel job, as its launcher says: by it merge tells its processes apart. */
static struct error *put_rank(struct finishing *finishing)
{
	static const char *const names[] = {
		"OMPI_COMM_WORLD_RANK", "PMIX_RANK",    "PMI_RANK",
		"MV2_COMM_WORLD_RANK",  "SLURM_PROCID",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *text = getenv(names[i]);
		char *end;

		if (!text || *text < '0' || *text > '9')
			continue;
		unsigned long rank = strtoul(text, &end, 10);

		if (*end == '\0' && rank <= INT_MAX)
			return store_put_meta_number(finishing->writer, "rank", rank);
	}
	return NULL;
}

struct error *collect_finishing_put_meta(struct finishing *finishing)
{
	const struct ledger_session *session = ledger_reader_session(finishing->reader);
	char host[HOST_NAME_MAX + 1] = "";

	gethostname(host, sizeof(host) - 1);
	TRY(store_put_meta_text(finishing->writer, "tool", "mallograph " MALLOGRAPH_VERSION));
	TRY(store_put_meta_text(finishing->writer, "host", host));
	TRY(put_rank(finishing));
	TRY(put_alloc_fns(finishing));
	return store_put_meta_number(finishing->writer, "start_unix_ns", session->start_unix_ns);
}

/* Blocks are looked at after the rows they belong to: of a process that goes on meanwhile,
 * what does not match says nothing. */
static struct error *finish_blocks(struct finish_process *process)
{
	uint64_t before = process->from->damage + process->damage;

	TRY(collect_finish_blocks(process));
	if (process->member->end == LEDGER_END_RUNNING)
		process->excused = process->from->damage + process->damage - before;
	return NULL;
}

static struct error *finish_all(struct finish_process *process)
{
	TRY(ledger_rows_read(process->finishing->reader, process->place, &process->rows));
	TRY(collect_finishing_naming(process->finishing, process->place, &process->naming));
	TRY(collect_finish_rows(process));
	if (process->finishing->last == process->from->serial)
		TRY(collect_finish_symbols(process->finishing));
	collect_finish_peak(process);
	TRY(collect_finish_snaps(process));
	TRY(collect_finish_series(process));
	TRY(finish_blocks(process));
	return collect_finish_put_process(process);
}

struct ledger_naming *collect_finishing_find(const struct finishing *finishing, uint32_t serial)
{
	for (size_t i = 0; i < finishing->namings.count; i++)
		if (finishing->namings.items[i]->serial == serial)
			return &finishing->namings.items[i]->naming;
	return NULL;
}

static struct error *add_naming(struct finishing *finishing, uint32_t serial,
				struct ledger_naming **ret)
{
	struct finish_named *named = calloc(1, sizeof(*named));

	if (!named)
		return error_no_memory();
	named->serial = serial;

	ledger_naming_init(&named->naming, &finishing->stacks);

	struct error *error = vector_push(&finishing->namings, named);

	if (error) {
		ledger_naming_deinit(&named->naming);
		free(named);
		return error;
	}
	*ret = &named->naming;
	return NULL;
}

struct error *collect_finishing_naming(struct finishing *finishing, size_t place,
				       struct ledger_naming **ret)
{
	uint32_t serial = ledger_reader_process(finishing->stacks.reader, place)->serial;

	*ret = collect_finishing_find(finishing, serial);
	if (!*ret)
		TRY(add_naming(finishing, serial, ret));
	return ledger_naming_attach(*ret, place);
}

/* Its tables are large, and there may be many processes. */
static void forget_naming(struct finishing *finishing, uint32_t serial)
{
	for (size_t i = 0; i < finishing->namings.count; i++) {
		struct finish_named *named = finishing->namings.items[i];

		if (named->serial != serial)
			continue;
		ledger_naming_deinit(&named->naming);
		free(named);
		finishing->namings.items[i] = finishing->namings.items[--finishing->namings.count];
		return;
	}
}

struct error *collect_finishing_process(struct finishing *finishing, size_t place)
{
	struct finish_process process = {
		.finishing = finishing,
		.place = place,
		.from = ledger_reader_process(finishing->reader, place),
		.member = &finishing->family.members[place],
		.first_site = finishing->sites.count,
	};
	struct error *error = finish_all(&process);

	forget_naming(finishing, process.from->serial);
	ledger_rows_free(&process.rows);
	free(process.row_sites);
	free(process.slot_threads);
	free(process.snaps);
	free(process.snap_ticks);
	return error;
}

struct error *collect_finishing_open(struct finishing *finishing, const char *path,
				     const char *name)
{
	*finishing = (struct finishing){.blocks_left = COLLECT_BLOCKS};

	struct error *error = store_writer_open(path, name, &finishing->writer);

	if (!error)
		error = ledger_stacks_init(&finishing->stacks);
	if (error)
		collect_finishing_close(finishing);
	return error;
}

void collect_finishing_close(struct finishing *finishing)
{
	store_writer_abort(finishing->writer);
	while (finishing->namings.count)
		forget_naming(finishing, finishing->namings.items[0]->serial);
	vector_free(&finishing->namings);
	collect_finish_frames_free(finishing);
	ledger_family_free(&finishing->family);
	ledger_stacks_deinit(&finishing->stacks);
	vector_free(&finishing->sites);
	map_index_free(&finishing->site_index);
	collect_finish_retired_free(finishing);
	collect_finish_programs_free(finishing);
	collect_finish_missed_free(finishing);
	*finishing = (struct finishing){0};
}

/* Of whom to say what is of all. */
static uint64_t anybody(const struct finishing *finishing)
{
	if (ledger_reader_process_count(finishing->reader))
		return ledger_reader_process(finishing->reader, 0)->serial;
	return finishing->retired.count ? finishing->retired.items[0].kin.serial : 1;
}

/* Processes that were begun and are neither kept nor in the file. */
static uint64_t absent(const struct finishing *finishing)
{
	const struct ledger_session *session = ledger_reader_session(finishing->reader);
	uint64_t here = finishing->retired.count;

	for (size_t i = 0; i < ledger_reader_process_count(finishing->reader); i++)
		here += !collect_finish_is_retired(
			finishing, ledger_reader_process(finishing->reader, i)->serial);
	/* For a while they are both there and here. */
	return session->begun > here ? session->begun - here : 0;
}

/* Those of them that were put beside the file, and are not there. */
static uint64_t not_kept(const struct finishing *finishing)
{
	const struct ledger_session *session = ledger_reader_session(finishing->reader);
	uint64_t known = finishing->retired.count, missing = absent(finishing);

	if (session->retired <= known)
		return 0;
	return missing < session->retired - known ? missing : session->retired - known;
}

/* Of processes without a header, those that were retired, of which the rest was not gone yet. */
static uint64_t headless_excused(const struct finishing *finishing)
{
	const struct ledger_session *session = ledger_reader_session(finishing->reader);
	uint64_t unknown = 0, rest = absent(finishing) - not_kept(finishing);

	for (size_t i = 0; i < session->headless_count; i++)
		unknown += !collect_finish_is_retired(finishing, session->headless[i]);
	if (session->retired && unknown > rest)
		unknown = rest;
	return session->headless_count - unknown;
}

/* Processes the session had, and that are nowhere now. */
static struct error *put_not_kept(struct finishing *finishing)
{
	uint64_t missing = not_kept(finishing);

	if (missing == 0)
		return NULL;
	return store_put(finishing->writer,
			 &((struct store_loss){
				 .process = anybody(finishing),
				 .kind = {"missed_process", strlen("missed_process")},
				 .count = missing,
				 .detail = {"ended, and not in this file",
					    strlen("ended, and not in this file")},
			 }));
}

/* Of many the sites would take much memory until they have titles. */
static struct error *finish_rest(struct finishing *finishing, size_t place, bool many)
{
	if (collect_finish_is_retired(finishing,
				      ledger_reader_process(finishing->reader, place)->serial))
		return NULL;
	TRY(collect_finishing_process(finishing, place));
	return many ? collect_finish_put_untitled(finishing) : NULL;
}

static struct error *write_all(struct finishing *finishing)
{
	size_t count = ledger_reader_process_count(finishing->reader);

	TRY(collect_finishing_put_meta(finishing));
	TRY(collect_finish_read_family(finishing));
	TRY(ledger_family_add_missed(finishing->reader, &finishing->family,
				     headless_excused(finishing)));
	for (size_t i = count; i-- && !finishing->last;) {
		uint32_t serial = ledger_reader_process(finishing->reader, i)->serial;

		if (!collect_finish_is_retired(finishing, serial))
			finishing->last = serial;
	}
	for (size_t i = 0; i < count; i++)
		TRY(finish_rest(finishing, i, count > MANY));
	TRY(put_not_kept(finishing));
	TRY(collect_finish_together(finishing));
	TRY(collect_finish_stacks(finishing));
	return ledger_reader_check(finishing->reader);
}

struct error *collect_finishing_write(struct finishing *finishing, struct ledger_reader *reader)
{
	struct store_writer *writer = finishing->writer;

	finishing->reader = finishing->stacks.reader = reader;
	TRY(write_all(finishing));
	finishing->writer = NULL;
	return store_writer_finish(writer);
}

struct error *collect_finish(struct ledger_reader *reader,
			     const struct collect_finish_options *options, const char *path,
			     const char *name)
{
	static const struct collect_finish_options defaults;
	struct finishing finishing;
	bool begun;

	options = options ? options : &defaults;
	struct error *error =
		collect_early_finish(options->early, reader, options, path, name, &begun);

	if (begun && !error)
		return NULL;
	if (error)
		log_debug("begun again: %s", error->message);
	error_free(error);

	const char *kept =
		options->retired ? options->retired : collect_early_retired_path(options->early);

	TRY(collect_finishing_open(&finishing, path, name));
	error = NULL;
	finishing.options = options;
	finishing.reader = reader;
	if (kept)
		error = collect_finishing_resume(&finishing, kept);
	if (!error)
		error = collect_finishing_write(&finishing, reader);
	collect_finishing_close(&finishing);
	return error;
}
