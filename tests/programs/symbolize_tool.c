/*
 * The symbolizer by hand: symbolize_tool [-c] [-d DEBUG-DIRECTORY]… [-r SYSROOT]
 * [-s STALL-MS] [-w READERS] FILE [BUILD-ID], with addresses on standard input, one a line:
 * hexadecimal, "r" behind one that is a return address; -c uses the cache. Or symbolize_tool
 * -m, with mangled names instead.
 *
 * Answers in JSON, a line each: {"level", "reason", "debug_file", "tries"
 * [[place, outcome, path, detail]…], "all_tries", "seconds", "readers", "addresses_read",
 * "reader_kib"}, then for each address its frames, [[function, file, line, column, inlined]…].
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "base/vector.h"
#include "symbols/demangle.h"
#include "symbols/symbols.h"

struct question {
	uint64_t offset;
	bool exact;
};

struct questions {
	VECTOR(struct question) all;
};

static void print_string(struct strbuf *out, const char *text)
{
	if (text)
		strbuf_json_string(out, text, strlen(text));
	else
		strbuf_append(out, "null");
}

static void print_line(struct strbuf *out)
{
	puts(out->text);
	strbuf_clear(out);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct error *read_questions(struct questions *questions, struct symbols_module *module)
{
	char line[64];

	while (fgets(line, sizeof(line), stdin)) {
		char *end;
		struct question question = {.offset = strtoull(line, &end, 16)};

		question.exact = *end != 'r';
		TRY(vector_push(&questions->all, question));
		TRY(symbols_address_add(module, question.offset, question.exact));
	}
	return NULL;
}

static void print_frames(struct strbuf *out, const struct symbols_frame *frames, size_t count)
{
	strbuf_append(out, "[");
	for (size_t i = 0; i < count; i++) {
		strbuf_append(out, i > 0 ? ", [" : "[");
		print_string(out, frames[i].function);
		strbuf_append(out, ", ");
		print_string(out, frames[i].file);
		strbuf_printf(out, ", %u, %u, %s]", frames[i].line, frames[i].column,
			      frames[i].inlined ? "true" : "false");
	}
	strbuf_append(out, "]");
	print_line(out);
}

static void print_tries(struct strbuf *out, const struct symbols_module *module)
{
	size_t count;
	bool is_whole;
	const struct symbols_try *tries = symbols_module_tries(module, &count, &is_whole);

	strbuf_append(out, ", \"tries\": [");
	for (size_t i = 0; i < count; i++) {
		struct symbols_identity now = symbols_identity_of(tries[i].path);

		if (!symbols_identity_equal(&now, &tries[i].identity))
			fprintf(stderr, "%s: another file than when it was tried\n", tries[i].path);
		strbuf_printf(out, "%s[\"%s\", \"%s\", ", i > 0 ? ", " : "",
			      symbols_place_name(tries[i].place),
			      symbols_outcome_text(tries[i].outcome));
		print_string(out, tries[i].path);
		strbuf_append(out, ", ");
		print_string(out, tries[i].detail);
		strbuf_append(out, "]");
	}
	strbuf_printf(out, "], \"all_tries\": %s", is_whole ? "true" : "false");
}

static void print_verdict(struct strbuf *out, const struct symbols_module *module, double spent,
			  struct symbols_counts counts)
{
	struct symbols_verdict verdict = symbols_module_verdict(module);
	struct rusage usage;

	strbuf_printf(out, "{\"level\": \"%s\", \"reason\": ", symbols_level_name(verdict.level));
	print_string(out, verdict.reason);
	strbuf_append(out, ", \"debug_file\": ");
	print_string(out, verdict.debug_file);
	print_tries(out, module);
	strbuf_printf(out, ", \"seconds\": %.6f, \"readers\": %" PRIu64, spent, counts.readers);
	strbuf_printf(out, ", \"addresses_read\": %" PRIu64, counts.addresses_read);
	getrusage(RUSAGE_CHILDREN, &usage);
	strbuf_printf(out, ", \"reader_kib\": %ld}", usage.ru_maxrss);
	print_line(out);
}

static struct error *symbolize(const struct symbols_options *options, const char *path,
			       const uint8_t *build_id, size_t build_id_bytes)
{
	CLEANUP_STRBUF struct strbuf out = STRBUF_EMPTY;
	struct questions questions = {VECTOR_EMPTY};
	struct symbols *symbols;
	struct symbols_module *module;

	TRY(symbols_create(options, &symbols));
	TRY(symbols_module_add(symbols, path, build_id, build_id_bytes, &module));
	TRY(read_questions(&questions, module));

	double start = seconds();

	TRY(symbols_resolve(symbols));
	print_verdict(&out, module, seconds() - start, symbols_counts(symbols));
	for (size_t i = 0; i < questions.all.count; i++) {
		struct question question = questions.all.items[i];
		size_t count;
		const struct symbols_frame *frames =
			symbols_frames(module, question.offset, question.exact, &count);

		print_frames(&out, frames, count);
	}
	vector_free(&questions.all);
	symbols_free(symbols);
	return NULL;
}

static struct error *demangle_all(void)
{
	CLEANUP_STRBUF struct strbuf out = STRBUF_EMPTY;
	CLEANUP_FREE char *line = NULL;
	size_t size = 0;
	ssize_t length;

	while ((length = getline(&line, &size, stdin)) > 0) {
		CLEANUP_FREE char *name = NULL;

		if (line[length - 1] == '\n')
			line[length - 1] = '\0';
		TRY(symbols_demangle(line, &name));
		print_string(&out, name);
		print_line(&out);
	}
	return NULL;
}

static size_t parse_build_id(const char *text, uint8_t bytes[64])
{
	size_t count = 0;

	while (count < 64 && sscanf(text + 2 * count, "%2hhx", &bytes[count]) == 1)
		count++;
	return count;
}

int main(int argc, char **argv)
{
	const char *directories[16];
	struct symbols_options options = {0};
	uint8_t build_id[64];
	int option;

	if (log_configure(getenv("MALLOGRAPH_LOG")))
		return 2;
	while ((option = getopt(argc, argv, "cd:r:s:w:m")) != -1) {
		switch (option) {
		case 'd':
			if (options.debug_directory_count == 16)
				return 2;
			directories[options.debug_directory_count++] = optarg;
			options.debug_directories = directories;
			break;
		case 'c':
			options.use_cache = true;
			break;
		case 'r':
			options.sysroot = optarg;
			break;
		case 's':
			options.stall_ms = (unsigned)atoi(optarg);
			break;
		case 'w':
			options.workers = (unsigned)atoi(optarg);
			break;
		case 'm':
			return demangle_all() != NULL;
		default:
			return 2;
		}
	}
	if (optind >= argc)
		return 2;

	CLEANUP_ERROR struct error *error =
		symbolize(&options, argv[optind], build_id,
			  optind + 1 < argc ? parse_build_id(argv[optind + 1], build_id) : 0);

	if (error)
		fprintf(stderr, "%s\n", error->message);
	return error != NULL;
}
