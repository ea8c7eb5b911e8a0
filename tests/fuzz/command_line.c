/*
 * Whatever is typed, in this process: words that each end with a NUL go to cli_main(), which
 * must end with a status of its own, say why where it fails, and send a terminal nothing but
 * text. In a directory of its own lie a profile, half of one and something like a ledger; a
 * first word MALLOGRAPH_LOG=… is the variable.
 *
 * command_line.wraps names the functions that are fenced in here: no file outside of the
 * directory is opened, no process started, no session looked for; what would run a program or
 * go through sessions ends with its words understood.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "collect/keep.h"
#include "collect/place.h"
#include "collect/recover.h"
#include "collect/run.h"
#include "collect/sessions.h"
#include "ledger/layout.h"
#include "store/store.h"

#include "image.h"

#define WORDS     48u
#define SQL_STEPS 2000 /* a question may go on for ever: that is who asks it to blame */
#define SQL_BYTES 65536

static char directory[] = "/tmp/mallograph-words-XXXXXX";
static int home = -1, here = -1; /* what it was called in; directory */
static struct timespec last_change;
static bool is_fenced;

/* --- fences -------------------------------------------------------------------------- */

#define FENCED(name) __wrap_##name
#define REAL(name)   __real_##name

static bool is_inside(const char *path)
{
	size_t length = strlen(directory);

	if (!is_fenced)
		return true;
	if (path[0] == '/' && (strncmp(path, directory, length) != 0 || path[length] != '/'))
		return false;
	return !strstr(path, "..");
}

int REAL(open64)(const char *path, int flags, ...);
int FENCED(open64)(const char *path, int flags, mode_t mode);
int FENCED(open)(const char *path, int flags, mode_t mode);
FILE *REAL(fopen64)(const char *path, const char *how);
FILE *FENCED(fopen64)(const char *path, const char *how);
FILE *FENCED(fopen)(const char *path, const char *how);
int REAL(mkdir)(const char *path, mode_t mode);
int FENCED(mkdir)(const char *path, mode_t mode);
pid_t FENCED(fork)(void);
int FENCED(posix_spawnp)(void);
int FENCED(glob64)(void);
int FENCED(glob)(void);

int FENCED(open64)(const char *path, int flags, mode_t mode)
{
	if (is_inside(path))
		return REAL(open64)(path, flags, mode);
	errno = EACCES;
	return -1;
}

int FENCED(open)(const char *path, int flags, mode_t mode)
{
	return FENCED(open64)(path, flags, mode);
}

FILE *FENCED(fopen64)(const char *path, const char *how)
{
	if (is_inside(path))
		return REAL(fopen64)(path, how);
	errno = EACCES;
	return NULL;
}

FILE *FENCED(fopen)(const char *path, const char *how) { return FENCED(fopen64)(path, how); }

int FENCED(mkdir)(const char *path, mode_t mode)
{
	if (is_inside(path))
		return REAL(mkdir)(path, mode);
	errno = EACCES;
	return -1;
}

pid_t FENCED(fork)(void)
{
	errno = EAGAIN;
	return -1;
}

int FENCED(posix_spawnp)(void) { return EAGAIN; }
int FENCED(glob64)(void) { return 1; /* GLOB_NOSPACE */ }
int FENCED(glob)(void) { return 1; }

struct error *FENCED(collect_run)(const struct collect_run_options *options,
				  struct collect_run *ret, int *exit_code);
struct error *FENCED(collect_recover)(const struct collect_found *found, const char *output,
				      const struct collect_finish_options *options,
				      enum collect_recovery *ret, char **ret_path);
struct error *FENCED(collect_sessions_list)(struct collect_sessions *ret);
struct error *FENCED(collect_place_open)(unsigned index, struct collect_place *ret);
struct error *FENCED(collect_keep_temporarily)(struct ledger_reader *reader,
					       const struct collect_finish_options *options,
					       char **ret);

/* As far as a run goes before it starts anything. */
struct error *FENCED(collect_run)(const struct collect_run_options *options,
				  struct collect_run *ret, int *exit_code)
{
	*ret = (struct collect_run){
		.output = COLLECT_OUTPUT_CLOSED,
		.session = COLLECT_SESSION_CLOSED,
		.signals = {.fd = -1},
	};
	TRY(collect_program_find(options->argv[0], &ret->program, exit_code));
	*exit_code = COLLECT_EXIT_FAILED;
	TRY(collect_output_prepare(options->output, ret->program.path, getpid(), &ret->output));
	return error_create(ERROR_REFUSED, "nothing is run here");
}

struct error *FENCED(collect_recover)(const struct collect_found *found, const char *output,
				      const struct collect_finish_options *options,
				      enum collect_recovery *ret, char **ret_path)
{
	struct collect_output prepared = COLLECT_OUTPUT_CLOSED;
	struct error *error = collect_output_prepare(output, found->path, getpid(), &prepared);

	(void)options, (void)ret_path;
	collect_output_close(&prepared);
	*ret = COLLECT_RECOVERY_RECORDING;
	return error;
}

struct error *FENCED(collect_sessions_list)(struct collect_sessions *ret)
{
	struct collect_found found = {.path = strdup("x.mgl"), .pid = 4711};

	return found.path ? vector_push(&ret->list, found) : error_no_memory();
}

struct error *FENCED(collect_place_open)(unsigned index, struct collect_place *ret)
{
	(void)index, (void)ret;
	return error_create(ERROR_REFUSED, "no place here");
}

struct error *FENCED(collect_keep_temporarily)(struct ledger_reader *reader,
					       const struct collect_finish_options *options,
					       char **ret)
{
	(void)reader, (void)options, (void)ret;
	return error_create(ERROR_REFUSED, "no ledger is finished here");
}

int REAL(sqlite3_prepare_v2)(sqlite3 *db, const char *sql, int bytes, sqlite3_stmt **ret,
			     const char **tail);
int FENCED(sqlite3_prepare_v2)(sqlite3 *db, const char *sql, int bytes, sqlite3_stmt **ret,
			       const char **tail);

static int stop(void *context)
{
	(void)context;
	return 1;
}

int FENCED(sqlite3_prepare_v2)(sqlite3 *db, const char *sql, int bytes, sqlite3_stmt **ret,
			       const char **tail)
{
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, SQL_BYTES);
	sqlite3_progress_handler(db, SQL_STEPS, stop, NULL);
	return REAL(sqlite3_prepare_v2)(db, sql, bytes, ret, tail);
}

/* --- the directory ------------------------------------------------------------------- */

static void must(struct error *error)
{
	if (!error)
		return;
	fprintf(stderr, "%s\n", error->message);
	abort();
}

static uint64_t intern(struct store_writer *writer, const char *text)
{
	uint64_t id;

	must(store_intern(writer, text, strlen(text), &id));
	return id;
}

static void put_process(struct store_writer *writer, uint64_t id, const char *program)
{
	struct store_process process = {
		.id = id,
		.how = STORE_HOW_ROOT,
		.pid = 4710 + id,
		.exe = intern(writer, program),
		.cwd = intern(writer, "/"),
		.argv = {"sample\0-x", 10},
		.start = 1000,
		.stop = 2000000,
		.end_kind = STORE_END_EXIT,
		.sample_period = 1,
		.allocs = 12,
		.frees = 4,
		.alloc_bytes = 1200,
		.live_blocks = 8,
		.live_bytes = 800,
		.peak_bytes = 900,
		.peak_blocks = 9,
		.threads = 1,
		.source = 1,
	};
	struct store_site site = {
		.id = id,
		.process = id,
		.stack = 1,
		.api = 1,
		.title = 1,
		.allocs = 12,
		.frees = 4,
		.alloc_bytes = 1200,
		.live_blocks = 8,
		.live_bytes = 800,
		.peak_blocks = 9,
		.peak_bytes = 900,
	};

	must(store_put(writer, &process));
	must(store_put(writer, &((struct store_api){.process = id, .api = 1, .calls = 12})));
	must(store_put(writer, &site));
	must(store_put(writer, &((struct store_site_size){id, 34, 12, 8, 1200})));
}

static void write_profile(const char *path)
{
	struct store_writer *writer;
	struct store_module module = {
		.id = 1, .kind = STORE_MODULE_FILE, .symbols = STORE_SYMBOLS_FULL};
	struct store_line line = {.loc = 1, .line = 12, .col = 3};
	struct store_source source = {.id = 1};

	must(store_writer_open(path, NULL, &writer));
	must(store_put_meta_text(writer, "tool", "mallograph"));
	module.path = intern(writer, "/bin/sample");
	line.function = intern(writer, "make");
	line.file = source.file = intern(writer, "sample.c");
	must(store_put(writer, &source));
	must(store_put(writer, &module));
	must(store_put(writer, &((struct store_loc){.id = 1, .module = 1, .offset = 0x401000})));
	must(store_put(writer, &line));
	must(store_put(writer, &((struct store_stack){.id = 1, .loc = 1})));
	put_process(writer, 1, "/bin/sample");
	put_process(writer, 2, "/bin/other");
	must(store_writer_finish(writer));
}

static void write_file(const char *path, const void *bytes, size_t size)
{
	CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
}

static bool is_ours(const char *name)
{
	static const char *const names[] = {".", "..", "x.mgp", "half.mgp", "x.mgl", "x"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Whatever a command left. */
static void tidy(bool all)
{
	int fd = openat(here, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	struct stat st;

	if (!list)
		abort();
	while ((entry = readdir(list)))
		if (all || !is_ours(entry->d_name))
			if (unlinkat(here, entry->d_name, 0) != 0)
				unlinkat(here, entry->d_name, AT_REMOVEDIR);
	closedir(list);
	if (fstat(here, &st) == 0)
		last_change = st.st_mtim;
}

static void leave(void)
{
	tidy(true);
	rmdir(directory);
}

static void begin(void)
{
	static char half[4096];
	static const char script[] = "#!/bin/sh\n";

	unsetenv("DEBUGINFOD_URLS");
	if (!mkdtemp(directory) || setenv("XDG_RUNTIME_DIR", directory, 1) != 0 ||
	    setenv("XDG_CACHE_HOME", directory, 1) != 0 || setenv("PATH", ".", 1) != 0)
		abort();
	home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	here = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	atexit(leave);
	if (home < 0 || here < 0 || fchdir(here) != 0)
		abort();
	write_profile("x.mgp");
	CLEANUP_FD int fd = open("x.mgp", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || pread(fd, half, sizeof(half), 0) != (ssize_t)sizeof(half))
		abort();
	write_file("half.mgp", half, sizeof(half));
	memset(half, 0, sizeof(half));
	memcpy(half, &(uint64_t){MGL_SESSION_MAGIC}, sizeof(uint64_t));
	write_file("x.mgl", half, sizeof(half));
	write_file("x", script, sizeof(script) - 1);
	tidy(false);
}

/* --- one command --------------------------------------------------------------------- */

struct heard {
	char *text;
	size_t length;
};

static void complain(char **argv, int status, const struct heard *words, const char *what)
{
	fprintf(stderr, "%s; status %d; it says:\n%.*s\n", what, status, (int)words->length,
		words->text);
	for (size_t i = 0; argv[i]; i++)
		fprintf(stderr, " [%s]", argv[i]);
	abort();
}

static void check(char **argv, int status, const struct heard *words)
{
	if (status != 0 && status != CLI_EXIT_USAGE && (status < 125 || status > 127))
		complain(argv, status, words, "no status of the tool's");
	if (status != 0 && words->length == 0)
		complain(argv, status, words, "it does not say why it failed");
	for (size_t i = 0; i < words->length; i++)
		if (((unsigned char)words->text[i] < ' ' && words->text[i] != '\n') ||
		    words->text[i] == 0x7f)
			complain(argv, status, words, "it says what is no text");
}

static void call(char **argv)
{
	struct heard out = {0}, words = {0};
	FILE *const before_out = stdout, *const before_err = stderr;
	struct stat st;

	if (fchdir(here) != 0)
		abort();
	stdout = open_memstream(&out.text, &out.length);
	stderr = open_memstream(&words.text, &words.length);
	if (!stdout || !stderr)
		abort();
	is_fenced = true;
	int status = cli_main(argv);

	is_fenced = false;
	fclose(stdout);
	fclose(stderr);
	stdout = before_out;
	stderr = before_err;
	check(argv, status, &words);
	free(out.text);
	free(words.text);
	if (fstat(here, &st) != 0)
		abort();
	if (st.st_mtim.tv_sec != last_change.tv_sec || st.st_mtim.tv_nsec != last_change.tv_nsec)
		tidy(false);
	if (fchdir(home) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char variable[] = "MALLOGRAPH_LOG=";
	CLEANUP_FREE char *text = malloc(size + 1);
	char *argv[WORDS + 2] = {(char *)(uintptr_t) "mallograph"};
	size_t count = 1;

	if (!text)
		abort();
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (here < 0)
		begin();
	unsetenv("MALLOGRAPH_LOG");
	for (char *at = text; at < text + size && count <= WORDS; at += strlen(at) + 1)
		if (count == 1 && strncmp(at, variable, strlen(variable)) == 0)
			setenv("MALLOGRAPH_LOG", at + strlen(variable), 1);
		else
			argv[count++] = at;
	call(argv);
	return 0;
}
