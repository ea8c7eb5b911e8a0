#include "collect/needed.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cursor.h"
#include "base/strbuf.h"
#include "collect/elf.h"

/* A hostile file names as many as it likes. */
#define MOST 1024u

#define CACHE_MAGIC  "glibc-ld.so.cache1.1"
#define CACHE_HEADER 48u
#define CACHE_ENTRY  24u
#define CACHE_X86_64 0x0303u /* of glibc, for x86-64 */
#define CACHE_MAX    ((off_t)64 << 20)

struct search {
	struct collect_needed *needed;
	const char *sysroot;
	void *cache; /* of the loader; NULL = none */
	size_t cache_bytes;
	/* Of the file at hand: */
	uint32_t from; /* its place in the list */
	char *rpath;
	char *runpath;
	struct error *error;
};

void collect_needed_free(struct collect_needed *needed)
{
	for (size_t i = 0; i < needed->list.count; i++) {
		free(needed->list.items[i].name);
		free(needed->list.items[i].path);
	}
	vector_free(&needed->list);
}

static int open_below(const char *sysroot, const char *path)
{
	CLEANUP_STRBUF struct strbuf whole = STRBUF_EMPTY;

	strbuf_printf(&whole, "%s%s", sysroot, path);
	return whole.failed ? -1 : open(whole.text, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Whether there is a file that could be loaded beside x86-64 code. */
static bool is_loadable(const struct search *search, const char *path)
{
	CLEANUP_FD int fd = open_below(search->sysroot, path);
	struct collect_elf elf;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	struct error *error = collect_elf_read(fd, path, &elf);
	bool fits = !error && elf.is_elf && elf.is_64 && elf.machine == EM_X86_64;

	error_free(error);
	return fits;
}

/* *ret malloc'd if that is it, else as it was. */
static struct error *try_path(const struct search *search, const char *directory, size_t length,
			      const char *name, char **ret)
{
	CLEANUP_STRBUF struct strbuf path = STRBUF_EMPTY;

	strbuf_append_bytes(&path, directory, length);
	strbuf_printf(&path, "/%s", name);
	TRY(strbuf_result(&path));
	if (is_loadable(search, path.text)) {
		*ret = strbuf_take(&path);
		return *ret ? NULL : error_no_memory();
	}
	return NULL;
}

/* An element of a list of directories, with $ORIGIN replaced; others of the loader's words
 * are rare and not known here. */
static struct error *expand(const struct search *search, const char *element, size_t length,
			    struct strbuf *ret)
{
	static const char *const words[] = {"$ORIGIN", "${ORIGIN}"};
	const char *path = search->needed->list.items[search->from].path;
	const char *slash = strrchr(path, '/');

	for (size_t i = 0; i < 2; i++) {
		size_t word = strlen(words[i]);

		if (length < word || memcmp(element, words[i], word) != 0)
			continue;
		strbuf_append_bytes(ret, path, slash ? (size_t)(slash - path) : 0);
		element += word;
		length -= word;
		break;
	}
	strbuf_append_bytes(ret, element, length);
	return strbuf_result(ret);
}

static struct error *search_list(const struct search *search, const char *list, const char *name,
				 char **ret)
{
	while (list && *list && !*ret) {
		size_t length = strcspn(list, ":");
		CLEANUP_STRBUF struct strbuf directory = STRBUF_EMPTY;

		TRY(expand(search, list, length, &directory));
		if (directory.length > 0 && directory.text[0] == '/')
			TRY(try_path(search, directory.text, directory.length, name, ret));
		list += length + (list[length] == ':');
	}
	return NULL;
}

static const char *cache_string(const struct cursor *cache, uint32_t offset)
{
	struct cursor at = *cache;
	size_t length;

	cursor_seek(&at, offset);
	return cursor_string(&at, &length);
}

static struct error *search_cache(const struct search *search, const char *name, char **ret)
{
	const char *start = search->cache ? memmem(search->cache, search->cache_bytes, CACHE_MAGIC,
						   strlen(CACHE_MAGIC))
					  : NULL;

	if (!start)
		return NULL;
	size_t before = (size_t)(start - (const char *)search->cache);
	struct cursor cache = cursor_over(start, search->cache_bytes - before);
	struct cursor at = cache;

	cursor_skip(&at, strlen(CACHE_MAGIC));
	uint32_t count = cursor_u32(&at);

	cursor_seek(&at, CACHE_HEADER);
	for (uint32_t i = 0; i < count && cursor_left(&at) >= CACHE_ENTRY && !*ret; i++) {
		uint32_t flags = cursor_u32(&at), key = cursor_u32(&at), value = cursor_u32(&at);

		cursor_skip(&at, CACHE_ENTRY - 12);
		const char *is = flags == CACHE_X86_64 ? cache_string(&cache, key) : NULL;
		const char *path = is && strcmp(is, name) == 0 ? cache_string(&cache, value) : NULL;

		if (path && *path == '/' && is_loadable(search, path)) {
			*ret = strdup(path);
			return *ret ? NULL : error_no_memory();
		}
	}
	return NULL;
}

static struct error *find(const struct search *search, const char *name, char **ret)
{
	static const char usual[] = "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:"
				    "/usr/lib64:/lib:/usr/lib";

	*ret = NULL;
	if (strchr(name, '/')) {
		*ret = is_loadable(search, name) ? strdup(name) : NULL;
		return NULL;
	}
	if (!search->runpath)
		TRY(search_list(search, search->rpath, name, ret));
	if (!*ret && !*search->sysroot)
		TRY(search_list(search, getenv("LD_LIBRARY_PATH"), name, ret));
	if (!*ret)
		TRY(search_list(search, search->runpath, name, ret));
	if (!*ret)
		TRY(search_cache(search, name, ret));
	return *ret ? NULL : search_list(search, usual, name, ret);
}

static bool is_listed(const struct collect_needed *needed, const char *name)
{
	for (size_t i = 0; i < needed->list.count; i++)
		if (strcmp(needed->list.items[i].name, name) == 0)
			return true;
	return false;
}

static struct error *add(struct search *search, const char *name)
{
	struct collect_needed *needed = search->needed;
	struct collect_library library = {.name = NULL};

	if (is_listed(needed, name) || needed->list.count >= MOST)
		return NULL;
	TRY(find(search, name, &library.path));
	library.name = strdup(name);
	library.from = needed->list.items[search->from].path;
	struct error *error =
		library.name ? vector_push(&needed->list, library) : error_no_memory();

	if (error) {
		free(library.name);
		free(library.path);
	}
	return error;
}

static bool note_path(void *context, int64_t tag, const char *name)
{
	struct search *search = context;
	char **to = tag == DT_RPATH ? &search->rpath : tag == DT_RUNPATH ? &search->runpath : NULL;

	if (to && !*to)
		*to = strdup(name);
	return true;
}

static bool note_needed(void *context, int64_t tag, const char *name)
{
	struct search *search = context;

	if (tag == DT_NEEDED)
		search->error = add(search, name);
	return !search->error;
}

static struct error *add_loader(struct search *search, int fd, const char *path)
{
	struct collect_elf elf;
	struct error *error = collect_elf_read(fd, path, &elf);
	const char *slash = error ? NULL : strrchr(elf.loader, '/');

	error_free(error);
	/* By its name: libraries ask for it by that. */
	if (!slash || is_listed(search->needed, slash + 1) || !is_loadable(search, elf.loader))
		return NULL;
	struct collect_library library = {
		.name = strdup(slash + 1),
		.path = strdup(elf.loader),
		.from = search->needed->list.items[search->from].path,
	};

	error = library.name && library.path ? vector_push(&search->needed->list, library)
					     : error_no_memory();
	if (error) {
		free(library.name);
		free(library.path);
	}
	return error;
}

static struct error *follow(struct search *search)
{
	const char *path = search->needed->list.items[search->from].path;
	CLEANUP_FD int fd = path ? open_below(search->sysroot, path) : -1;

	if (fd < 0)
		return NULL;
	collect_elf_dynamic(fd, note_path, search);
	TRY(add_loader(search, fd, path));
	collect_elf_dynamic(fd, note_needed, search);
	free(search->rpath);
	free(search->runpath);
	search->rpath = search->runpath = NULL;
	return search->error;
}

static void map_cache(struct search *search)
{
	CLEANUP_FD int fd = open_below(search->sysroot, "/etc/ld.so.cache");
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    st.st_size > CACHE_MAX)
		return;
	void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (bytes == MAP_FAILED)
		return;
	search->cache = bytes;
	search->cache_bytes = (size_t)st.st_size;
}

struct error *collect_needed(const char *program, const char *sysroot, struct collect_needed *ret)
{
	struct search search = {.needed = ret, .sysroot = sysroot};
	struct collect_library first = {.name = strdup(program), .path = strdup(program)};
	struct error *error =
		first.name && first.path ? vector_push(&ret->list, first) : error_no_memory();

	if (error) {
		free(first.name);
		free(first.path);
		return error;
	}
	map_cache(&search);
	for (; search.from < ret->list.count && !error; search.from++)
		error = follow(&search);
	free(search.rpath);
	free(search.runpath);
	if (search.cache)
		munmap(search.cache, search.cache_bytes);
	return error;
}
