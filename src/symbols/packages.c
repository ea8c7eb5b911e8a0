#include "symbols/packages_internal.h"

#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "symbols/candidate.h"

/* APT's lists of all packages have a hundred MiB. */
#define FILE_MAX ((off_t)1 << 30)

void symbols_texts_free(symbols_texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		free(texts->items[i]);
	vector_free(texts);
}

void symbols_advice_free(struct symbols_advice *advice)
{
	symbols_texts_free(&advice->commands);
	symbols_texts_free(&advice->notes);
}

struct symbols_mapped symbols_map_file(const char *path)
{
	struct symbols_mapped none = {NULL, 0};
	CLEANUP_FD int fd = symbols_file_open(path);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size <= 0 || st.st_size > FILE_MAX)
		return none;
	void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (bytes == MAP_FAILED)
		return none;
	return (struct symbols_mapped){bytes, (size_t)st.st_size};
}

void symbols_unmap_file(struct symbols_mapped *file)
{
	if (file->bytes)
		munmap((void *)file->bytes, file->length);
	*file = (struct symbols_mapped){NULL, 0};
}

/* Takes text over. */
static struct error *push(symbols_texts *texts, char *text)
{
	struct error *error = text ? vector_push(texts, text) : error_no_memory();

	if (error)
		free(text);
	return error;
}

struct error *symbols_texts_add(symbols_texts *texts, const char *bytes, size_t length)
{
	for (size_t i = 0; i < texts->count; i++)
		if (strlen(texts->items[i]) == length &&
		    memcmp(texts->items[i], bytes, length) == 0)
			return NULL;
	return push(texts, strndup(bytes, length));
}

struct error *symbols_packages_glob(const struct symbols_packages *packages, const char *pattern,
				    symbols_texts *ret)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	struct error *error = NULL;
	glob_t found;

	/* The sysroot's own name is no pattern. */
	for (const char *at = packages->sysroot; *at; at++) {
		if (strchr("*?[\\", *at))
			strbuf_append_char(&text, '\\');
		strbuf_append_char(&text, *at);
	}
	strbuf_append(&text, pattern);
	TRY(strbuf_result(&text));
	if (glob(text.text, GLOB_PERIOD, NULL, &found) != 0)
		return NULL;
	for (size_t i = 0; i < found.gl_pathc && !error; i++)
		error = push(ret, strdup(found.gl_pathv[i]));
	globfree(&found);
	return error;
}

bool symbols_is_name(const char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+._-",
			    bytes[i]))
			return false;
	return length > 0 && bytes[0] != '-';
}

struct error *symbols_advise_command(const struct symbols_packages *packages, const char *command,
				     const symbols_texts *names)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	strbuf_printf(&text, "%s%s", geteuid() == 0 ? "" : "sudo ", command);
	for (size_t i = 0; i < names->count; i++)
		strbuf_printf(&text, " %s", names->items[i]);
	TRY(strbuf_result(&text));
	return push(&packages->advice->commands, strbuf_take(&text));
}

struct error *symbols_advise_note(const struct symbols_packages *packages, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	int length = vasprintf(&text, format, arguments);
	va_end(arguments);
	return push(&packages->advice->notes, length < 0 ? NULL : text);
}

struct error *symbols_advise_own(const struct symbols_packages *packages, const char *path)
{
	return symbols_advise_note(packages,
				   "%s is of no package: build it with -g, or say with "
				   "--debug-dir where its debug file is.",
				   path);
}

char *symbols_plain_path(const char *path)
{
	size_t length = strlen(path), suffix = strlen(SYMBOLS_DELETED);

	if (length > suffix && strcmp(path + length - suffix, SYMBOLS_DELETED) == 0)
		length -= suffix;
	return strndup(path, length);
}

/* The value of a key in os-release, without quotes; "" = none. */
static void read_key(const struct symbols_mapped *file, const char *key, char *ret, size_t size)
{
	size_t key_length = strlen(key), at = 0;

	ret[0] = '\0';
	while (at < file->length) {
		const char *line = file->bytes + at;
		const char *end = memchr(line, '\n', file->length - at);
		size_t length = end ? (size_t)(end - line) : file->length - at;

		at += length + 1;
		if (length <= key_length || memcmp(line, key, key_length) != 0 ||
		    line[key_length] != '=')
			continue;
		line += key_length + 1;
		length -= key_length + 1;
		if (length >= 2 && (*line == '"' || *line == '\'') && line[length - 1] == *line) {
			line++;
			length -= 2;
		}
		if (length < size) {
			memcpy(ret, line, length);
			ret[length] = '\0';
		}
		return;
	}
}

struct system {
	char ids[512]; /* its own, and those it is like */
	char suite[64];
};

static bool is_like(const struct system *system, const char *id)
{
	size_t length = strlen(id);

	for (const char *at = system->ids; *at; at += strcspn(at, " "), at += *at == ' ')
		if (strcspn(at, " ") == length && memcmp(at, id, length) == 0)
			return true;
	return false;
}

static struct error *read_system(const char *sysroot, struct system *ret)
{
	static const char *const places[] = {"/etc/os-release", "/usr/lib/os-release"};
	struct symbols_mapped file = {NULL, 0};
	char id[128], like[256];

	for (size_t i = 0; i < 2 && !file.bytes; i++) {
		CLEANUP_STRBUF struct strbuf path = STRBUF_EMPTY;

		strbuf_printf(&path, "%s%s", sysroot, places[i]);
		TRY(strbuf_result(&path));
		file = symbols_map_file(path.text);
	}
	*ret = (struct system){.ids = ""};
	if (!file.bytes)
		return NULL;
	read_key(&file, "ID", id, sizeof(id));
	read_key(&file, "ID_LIKE", like, sizeof(like));
	read_key(&file, "VERSION_CODENAME", ret->suite, sizeof(ret->suite));
	symbols_unmap_file(&file);
	snprintf(ret->ids, sizeof(ret->ids), "%s %s", id, like);
	if (!symbols_is_name(ret->suite, strlen(ret->suite)))
		ret->suite[0] = '\0';
	return NULL;
}

static struct error *advise(const struct symbols_packages *packages, const struct system *system)
{
	if (is_like(system, "debian") || is_like(system, "ubuntu"))
		return symbols_advise_debian(packages);
	if (is_like(system, "fedora") || is_like(system, "rhel"))
		return symbols_advise_fedora(packages);
	if (is_like(system, "arch"))
		return symbols_advise_arch(packages);
	if (is_like(system, "void"))
		return symbols_advise_void(packages);
	return symbols_advise_note(packages,
				   "What this system calls the packages with debug files is not "
				   "known: they come from where the modules do.");
}

struct error *symbols_advise(const char *sysroot, const struct symbols_missing *missing,
			     size_t count, struct symbols_advice *ret)
{
	struct system system;
	struct symbols_packages packages = {
		.sysroot = sysroot ? sysroot : "",
		.missing = missing,
		.count = count,
		.advice = ret,
	};

	*ret = (struct symbols_advice){VECTOR_EMPTY, VECTOR_EMPTY};
	if (count == 0)
		return NULL;
	TRY(read_system(packages.sysroot, &system));
	packages.suite = system.suite;
	packages.is_ubuntu = is_like(&system, "ubuntu");
	return advise(&packages, &system);
}
