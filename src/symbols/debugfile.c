#include "symbols/debugfile.h"

#include <gelf.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#define DEBUG_DIRECTORY "/usr/lib/debug"

static struct error *add_directory(struct symbols_search *search, const char *root,
				   const char *directory)
{
	CLEANUP_FREE char *path = NULL;

	if (asprintf(&path, "%s%s", root, directory) < 0) {
		path = NULL;
		return error_no_memory();
	}
	TRY(vector_push(&search->directories, path));
	path = NULL;
	return NULL;
}

struct error *symbols_search_init(struct symbols_search *search,
				  const struct symbols_options *options,
				  const symbols_fetch_list *fetches)
{
	*search = (struct symbols_search){
		.sysroot = options->sysroot ? options->sysroot : "",
		.fetches = options->servers ? fetches : NULL,
		.poor_fd = -1,
	};
	for (size_t i = 0; i < options->debug_directory_count; i++)
		TRY(add_directory(search, "", options->debug_directories[i]));
	if (*search->sysroot)
		TRY(add_directory(search, search->sysroot, DEBUG_DIRECTORY));
	return add_directory(search, "", DEBUG_DIRECTORY);
}

void symbols_search_free(struct symbols_search *search)
{
	for (size_t i = 0; i < search->directories.count; i++)
		free(search->directories.items[i]);
	vector_free(&search->directories);
	free(search->alternate);
	search->alternate = NULL;
	if (search->poor_fd >= 0)
		close(search->poor_fd);
	search->poor_fd = -1;
	free(search->poor_path);
	search->poor_path = NULL;
	vector_free(&search->wanted);
	symbols_trace_free(&search->trace);
}

void symbols_search_refused(const struct symbols_search *search, struct strbuf *text)
{
	for (size_t i = 0; i < search->trace.tries.count; i++) {
		const struct symbols_try *tried = &search->trace.tries.items[i];

		if (tried->place == SYMBOLS_PLACE_FILE || tried->place == SYMBOLS_PLACE_SPLIT ||
		    tried->outcome == SYMBOLS_OUTCOME_FOUND ||
		    tried->outcome == SYMBOLS_OUTCOME_ABSENT)
			continue;
		strbuf_printf(text, "%s%s (%s)", text->length > 0 ? ", " : "", tried->path,
			      tried->outcome == SYMBOLS_OUTCOME_UNREADABLE && tried->detail
				      ? tried->detail
				      : symbols_outcome_text(tried->outcome));
	}
}

static bool is_absent(int number) { return number == ENOENT || number == ENOTDIR; }

int symbols_search_open(struct symbols_search *search, enum symbols_place place, const char *path,
			struct symbols_try *ret)
{
	struct stat st;
	int fd = symbols_file_open(path);

	*ret = (struct symbols_try){.place = place, .path = path};
	if (fd >= 0 && fstat(fd, &st) == 0) {
		ret->outcome = SYMBOLS_OUTCOME_FOUND;
		ret->identity = symbols_identity_of_stat(&st);
		return fd;
	}
	int saved = errno;

	ret->outcome = is_absent(saved) ? SYMBOLS_OUTCOME_ABSENT : SYMBOLS_OUTCOME_UNREADABLE;
	if (ret->outcome == SYMBOLS_OUTCOME_UNREADABLE) {
		ret->detail = saved == EINVAL ? "not a regular file" : strerror(saved);
		ret->identity = symbols_identity_of(path);
	}
	symbols_trace_add(&search->trace, ret);
	errno = saved;
	return -1;
}

/* Different ways lead to one path where /lib is /usr/lib. */
static bool is_tried(const struct symbols_search *search, const char *path)
{
	for (size_t i = 0; i < search->trace.tries.count; i++)
		if (strcmp(search->trace.tries.items[i].path, path) == 0)
			return true;
	return false;
}

/* The path's file if it is the one wanted. Takes path over: it goes to ret_path or is
 * freed. */
static int try(struct symbols_search *search, char *path, const struct symbols_wanted *wanted,
	       char **ret_path)
{
	CLEANUP_STRBUF struct strbuf detail = STRBUF_EMPTY;
	CLEANUP_FREE char *mine = path;
	struct symbols_try tried;
	CLEANUP_FD int fd = -1;

	if (!mine || is_tried(search, mine))
		return -1;
	fd = symbols_search_open(search, wanted->place, mine, &tried);
	if (fd < 0)
		return -1;

	tried.outcome = symbols_candidate_match(fd, wanted, &detail);
	tried.detail = detail.text;
	symbols_trace_add(&search->trace, &tried);
	if (tried.outcome == SYMBOLS_OUTCOME_NO_DEBUG && search->poor_fd < 0) {
		search->poor_fd = cleanup_steal_fd(&fd);
		search->poor_path = STEAL(mine);
	}
	if (tried.outcome != SYMBOLS_OUTCOME_FOUND && tried.outcome != SYMBOLS_OUTCOME_NO_LINES)
		return -1;
	*ret_path = STEAL(mine);
	return cleanup_steal_fd(&fd);
}

int symbols_search_poor(struct symbols_search *search, char **ret_path)
{
	*ret_path = STEAL(search->poor_path);
	return cleanup_steal_fd(&search->poor_fd);
}

static __attribute__((format(printf, 1, 2))) char *format(const char *text, ...)
{
	va_list arguments;
	char *result;

	va_start(arguments, text);
	if (vasprintf(&result, text, arguments) < 0)
		result = NULL;
	va_end(arguments);
	return result;
}

/* "xx/yyyy" in hexadecimal; "" = the id is too short for that. */
static void append_id_path(struct strbuf *text, const struct symbols_build_id *id)
{
	for (size_t i = 0; i < id->count && id->count >= 2; i++)
		strbuf_printf(text, "%02x%s", id->bytes[i], i == 0 ? "/" : "");
}

void symbols_search_own(const struct symbols_search *search, const struct symbols_build_id *id,
			bool (*visit)(void *context, const char *path), void *context)
{
	CLEANUP_STRBUF struct strbuf rest = STRBUF_EMPTY, path = STRBUF_EMPTY;
	bool more = true;

	append_id_path(&rest, id);
	if (rest.failed || rest.length == 0)
		return;
	for (size_t i = 0; i < search->directories.count && more; i++) {
		strbuf_clear(&path);
		strbuf_printf(&path, "%s/.build-id/%s", search->directories.items[i], rest.text);
		more = !path.failed && visit(context, path.text);
	}
}

static int search_id(struct symbols_search *search, enum symbols_place place,
		     const struct symbols_build_id *id, char **ret_path)
{
	CLEANUP_STRBUF struct strbuf rest = STRBUF_EMPTY;
	const struct symbols_wanted wanted = {
		.place = place, .id = id, .is_dwz = place == SYMBOLS_PLACE_DWZ};
	int fd = -1;

	append_id_path(&rest, id);
	if (rest.failed || rest.length == 0)
		return -1;
	for (size_t i = 0; i < search->directories.count && fd < 0; i++)
		fd = try(search,
			 format("%s/.build-id/%s.debug", search->directories.items[i], rest.text),
			 &wanted, ret_path);
	return fd;
}

int symbols_search_build_id(struct symbols_search *search, char **ret_path)
{
	return search_id(search, SYMBOLS_PLACE_BUILD_ID, &search->build_id, ret_path);
}

/* The directory of a path with its last slash; "" for a bare name. */
static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strndup(path, slash ? (size_t)(slash - path) + 1 : 0);
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int search_name_from(struct symbols_search *search, const char *directory, const char *name,
			    const struct symbols_wanted *wanted, char **ret_path)
{
	int fd = try(search, format("%s%s", directory, name), wanted, ret_path);
	size_t sysroot = strlen(search->sysroot);

	if (fd < 0)
		fd = try(search, format("%s.debug/%s", directory, name), wanted, ret_path);
	/* In a debug directory it stands where it stood when it was recorded. */
	if (sysroot > 0 && strncmp(directory, search->sysroot, sysroot) == 0)
		directory += sysroot;
	for (size_t i = 0; i < search->directories.count && fd < 0 && *directory == '/'; i++) {
		const char *root = search->directories.items[i];

		fd = try(search, format("%s%s%s", root, directory, name), wanted, ret_path);
		/* Packages from before /bin and /usr/bin became one. */
		if (fd < 0 && strncmp(directory, "/usr/", 5) == 0)
			fd = try(search, format("%s%s%s", root, directory + 4, name), wanted,
				 ret_path);
	}
	return fd;
}

int symbols_search_name(struct symbols_search *search, const char *path, const char *link,
			uint32_t crc, char **ret_path)
{
	const struct symbols_wanted wanted = {
		.place = link ? SYMBOLS_PLACE_LINK : SYMBOLS_PLACE_NAME,
		.id = &search->build_id,
		.crc = link ? &crc : NULL,
	};
	CLEANUP_FREE char *directory = directory_of(path);
	CLEANUP_FREE char *real = realpath(path, NULL);
	CLEANUP_FREE char *real_directory = real ? directory_of(real) : NULL;
	CLEANUP_FREE char *name = link ? strdup(link) : format("%s.debug", base_of(path));

	/* A link is a bare name: a path would lead out of the places meant for it. Without
	 * one, the build-id alone can prove a file. */
	if (!directory || !name || !*name || strchr(name, '/') ||
	    (!link && search->build_id.count == 0))
		return -1;
	int fd = search_name_from(search, directory, name, &wanted, ret_path);

	if (fd < 0 && real_directory && strcmp(directory, real_directory) != 0)
		fd = search_name_from(search, real_directory, name, &wanted, ret_path);
	return fd;
}

void symbols_search_forget_alternate(struct symbols_search *search)
{
	free(search->alternate);
	search->alternate = NULL;
	search->alternate_id.count = 0;
}

void symbols_search_note_alternate(struct symbols_search *search, Elf *elf)
{
	size_t names, length;
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return;
	while ((section = elf_nextscn(elf, section)) != NULL) {
		const char *name = gelf_getshdr(section, &header)
					   ? elf_strptr(elf, names, header.sh_name)
					   : NULL;
		const Elf_Data *data = name && strcmp(name, ".gnu_debugaltlink") == 0
					       ? elf_rawdata(section, NULL)
					       : NULL;

		if (!data || !data->d_buf)
			continue;
		length = strnlen(data->d_buf, data->d_size);
		if (length == 0 || length >= data->d_size ||
		    data->d_size - length - 1 > sizeof(search->alternate_id.bytes))
			return;
		free(search->alternate);
		search->alternate = strdup(data->d_buf);
		search->alternate_id.count = data->d_size - length - 1;
		memcpy(search->alternate_id.bytes, (const char *)data->d_buf + length + 1,
		       search->alternate_id.count);
		return;
	}
}

void symbols_search_server_path(struct strbuf *text, const struct symbols_build_id *id)
{
	strbuf_append(text, "buildid/");
	symbols_build_id_print(text, id);
	strbuf_append(text, "/debuginfo");
}

static void want(struct symbols_search *search, const struct symbols_build_id *id)
{
	for (size_t i = 0; i < search->wanted.count; i++)
		if (symbols_build_id_equal(&search->wanted.items[i], id))
			return;
	if (search->wanted.count < SYMBOLS_WANTED_MAX)
		error_free(vector_push(&search->wanted, *id));
}

int symbols_search_server(struct symbols_search *search, const struct symbols_build_id *id,
			  char **ret_path)
{
	const struct symbols_wanted wanted = {
		.place = SYMBOLS_PLACE_SERVER, .id = id, .is_dwz = id == &search->alternate_id};

	if (!search->fetches || id->count < 2)
		return -1;
	for (size_t i = 0; i < search->fetches->count; i++) {
		const struct symbols_fetch *fetch = &search->fetches->items[i];

		if (symbols_build_id_equal(&fetch->id, id))
			return fetch->path ? try(search, strdup(fetch->path), &wanted, ret_path)
					   : -1;
	}
	want(search, id);
	return -1;
}

/* Of the place its maker gave it. */
static int search_absolute(struct symbols_search *search, const struct symbols_wanted *wanted,
			   char **ret_path)
{
	int fd = -1;

	if (*search->sysroot)
		fd = try(search, format("%s%s", search->sysroot, search->alternate), wanted,
			 ret_path);
	return fd >= 0 ? fd : try(search, strdup(search->alternate), wanted, ret_path);
}

static int search_beside(struct symbols_search *search, const char *path,
			 const struct symbols_wanted *wanted, char **ret_path)
{
	CLEANUP_FREE char *real = realpath(path, NULL);
	CLEANUP_FREE char *directory = directory_of(real ? real : path);

	if (!directory)
		return -1;
	return try(search, format("%s%s", directory, search->alternate), wanted, ret_path);
}

int symbols_search_alternate(struct symbols_search *search, const char *path, char **ret_path)
{
	const struct symbols_wanted wanted = {
		.place = SYMBOLS_PLACE_DWZ, .id = &search->alternate_id, .is_dwz = true};
	int fd = search_id(search, SYMBOLS_PLACE_DWZ, &search->alternate_id, ret_path);

	if (fd >= 0 || !search->alternate)
		return fd;
	fd = search->alternate[0] == '/' ? search_absolute(search, &wanted, ret_path)
					 : search_beside(search, path, &wanted, ret_path);
	return fd >= 0 ? fd : symbols_search_server(search, &search->alternate_id, ret_path);
}
