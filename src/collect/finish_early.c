#include "collect/early.h"

#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "collect/finish_early.h"
#include "collect/place.h"

#define LOG_DOMAIN "collect"
#include "base/log.h"

#define ROOM       ((uint64_t)512 << 20)
#define PROCESSES  64u /* beyond, none more: each takes memory */
#define FRAMES     ((size_t)4 << 20)
#define SLICE_NS   UINT64_C(4000000) /* of the processor; then as long a rest */
#define SLICE_ROWS 64u               /* between looks at the clock */

struct error *collect_early_create(uint64_t room, const char *path, struct collect_early **ret)
{
	struct collect_early *early = calloc(1, sizeof(*early));

	if (!early)
		return error_no_memory();
	early->room = room ? room : ROOM;
	early->fd = -1;
	early->path = path ? strdup(path) : NULL;
	if (path && !early->path) {
		free(early);
		return error_no_memory();
	}
	*ret = early;
	return NULL;
}

/* Nothing of it is of use any more but what is kept. */
static void end(struct collect_early *early)
{
	if (early->is_open)
		collect_finishing_close(&early->finishing);
	if (early->fd >= 0)
		close(early->fd);
	early->fd = -1;
	early->is_open = false;
	early->ended = true;
	vector_free(&early->tasks);
	early->next = 0;
}

void collect_early_give_up(struct collect_early *early, struct error *error)
{
	log_debug("the rest is left for the end: %s", error->message);
	error_free(error);
	end(early);
}

void collect_early_free(struct collect_early *early)
{
	if (!early)
		return;
	end(early);
	if (early->path && early->retired == 0)
		unlink(early->path);
	free(early->path);
	free(early);
}

void collect_early_add(struct collect_early *early, uint32_t serial, uint32_t node)
{
	struct error *error;

	if (early->ended)
		return;
	error = vector_push(&early->tasks, ((struct early_task){serial, node}));
	if (error)
		collect_early_give_up(early, error);
}

size_t collect_early_count(const struct collect_early *early)
{
	return early->tasks.count - early->next;
}

size_t collect_early_frames(const struct collect_early *early)
{
	return early->is_open ? early->finishing.stacks.frames.count - 1 : 0;
}

/* What is free there is the session's: ledgers grow into it. */
static struct error *check_room(const struct collect_early *early)
{
	struct statvfs fs;

	if (fstatvfs(early->fd, &fs) != 0)
		return error_create_system(errno, NULL, "cannot see how much room there is");
	if ((uint64_t)fs.f_bavail * fs.f_frsize < early->room)
		return error_create(ERROR_REFUSED, "there is little room for a profile");
	return NULL;
}

/* Of its own where it is to be found if this process is killed; else without a name. */
static struct error *make_file(struct collect_early *early, char **ret)
{
	if (!early->path)
		return collect_place_temporary(ret);
	unlink(early->path);
	*ret = strdup(early->path);
	return *ret ? NULL : error_no_memory();
}

static struct error *open_profile(struct collect_early *early)
{
	CLEANUP_FREE char *path = NULL;

	TRY(make_file(early, &path));
	early->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT, 0600);

	struct error *error = early->fd < 0 ? error_create_system(errno, path, "cannot be opened")
					    : check_room(early);

	if (!error)
		error = collect_finishing_open(&early->finishing, path, path);
	early->is_open = !error;
	if (!early->path)
		unlink(path);
	if (!error)
		store_writer_yield(early->finishing.writer);
	return error;
}

/* Which of the reader's processes those are whose stacks have names. */
static struct error *attach(struct collect_early *early, struct ledger_reader *reader)
{
	struct finishing *finishing = &early->finishing;

	finishing->stacks.reader = reader;
	for (size_t i = 0; i < ledger_reader_process_count(reader); i++) {
		const struct ledger_process *process = ledger_reader_process(reader, i);
		struct ledger_naming *naming = collect_finishing_find(finishing, process->serial);

		if (naming)
			TRY(ledger_naming_attach(naming, i));
	}
	return NULL;
}

static struct error *naming_of(struct collect_early *early, uint32_t serial,
			       struct ledger_naming **ret)
{
	struct finishing *finishing = &early->finishing;
	struct ledger_reader *reader = finishing->stacks.reader;

	*ret = collect_finishing_find(finishing, serial);
	if (*ret || finishing->namings.count >= PROCESSES)
		return NULL;
	for (size_t i = 0; i < ledger_reader_process_count(reader); i++)
		if (ledger_reader_process(reader, i)->serial == serial)
			return collect_finishing_naming(finishing, i, ret);
	return NULL;
}

static struct error *name_some(struct collect_early *early)
{
	struct ledger_naming *naming = NULL;
	uint32_t serial = 0;

	for (unsigned int i = 0; i < SLICE_ROWS && early->next < early->tasks.count; i++) {
		struct early_task task = early->tasks.items[early->next++];

		if (!naming || task.serial != serial)
			TRY(naming_of(early, task.serial, &naming));
		serial = task.serial;
		if (naming && early->finishing.stacks.frames.count < FRAMES)
			TRY(ledger_naming_try(naming, task.node));
	}
	return collect_finish_frames(&early->finishing);
}

struct error *collect_early_begin(struct collect_early *early, struct ledger_reader *reader,
				  uint64_t opened)
{
	if (!early->is_open)
		TRY(open_profile(early));
	TRY(check_room(early));
	if (early->finishing.stacks.reader != reader || early->opened != opened)
		TRY(attach(early, reader));
	early->opened = opened;
	return NULL;
}

static struct error *work(struct collect_early *early, struct ledger_reader *reader,
			  uint64_t opened)
{
	uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	TRY(collect_early_begin(early, reader, opened));
	do
		TRY(name_some(early));
	while (early->next < early->tasks.count &&
	       clock_ns(CLOCK_THREAD_CPUTIME_ID) - start < SLICE_NS);
	if (early->next == early->tasks.count)
		early->tasks.count = early->next = 0;
	return NULL;
}

void collect_early_work(struct collect_early *early, struct ledger_reader *reader, uint64_t opened)
{
	uint64_t start = clock_now_ns();

	if (early->ended || early->tasks.count == 0 || start < early->due_ns)
		return;
	struct error *error = work(early, reader, opened);
	uint64_t now = clock_now_ns();

	early->due_ns = now + (now - start);
	if (error)
		collect_early_give_up(early, error);
}

int collect_early_wait(const struct collect_early *early)
{
	return early->ended || early->tasks.count == 0 ? -1 : clock_wait_ms(early->due_ns);
}

/* --- the end ------------------------------------------------------------------------- */

static struct error *copy_out(int from, int to, const char *name)
{
	off_t at = 0;
	struct stat st;

	if (fstat(from, &st) != 0)
		return error_create_system(errno, name, "cannot write the profile");
	while (at < st.st_size) {
		ssize_t count = sendfile(to, from, &at, (size_t)(st.st_size - at));

		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0)
			return error_create_system(count < 0 ? errno : EIO, name,
						   "cannot write the profile");
	}
	return NULL;
}

static struct error *finish(struct collect_early *early, struct ledger_reader *reader,
			    const struct collect_finish_options *options, const char *path,
			    const char *name)
{
	early->finishing.options = options;
	TRY(store_writer_hurry(early->finishing.writer));
	TRY(collect_finishing_write(&early->finishing, reader));

	CLEANUP_FD int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (to < 0)
		return error_create_system(errno, name, "cannot write the profile");
	struct error *error = copy_out(early->fd, to, name);

	/* A part of a profile is none to begin again with. */
	if (error && ftruncate(to, 0) != 0)
		log_debug("%s: cannot be emptied: %s", name, strerror(errno));
	return error;
}

struct error *collect_early_finish(struct collect_early *early, struct ledger_reader *reader,
				   const struct collect_finish_options *options, const char *path,
				   const char *name, bool *ret)
{
	*ret = early && early->is_open && !early->ended;
	if (!*ret)
		return NULL;
	log_debug("%zu frames were named while the program ran", collect_early_frames(early));

	struct error *error = finish(early, reader, options, path, name);

	end(early);
	return error;
}
