#include "symbols/debugfile.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#define LOG_DOMAIN "symbols"
#include "base/log.h"

static const char *const default_directories[] = {"/usr/lib/debug"};

void symbols_search_free(struct symbols_search *search)
{
	free(search->alternate);
	search->alternate = NULL;
	strbuf_free(&search->refused);
}

struct symbols_build_id symbols_build_id_of(Elf *elf)
{
	struct symbols_build_id id = {.count = 0};
	const void *bytes;
	ssize_t count = dwelf_elf_gnu_build_id(elf, &bytes);

	if (count > 0 && (size_t)count <= sizeof(id.bytes)) {
		id.count = (size_t)count;
		memcpy(id.bytes, bytes, id.count);
	}
	return id;
}

bool symbols_build_id_equal(const struct symbols_build_id *a, const struct symbols_build_id *b)
{
	return a->count == b->count && memcmp(a->bytes, b->bytes, a->count) == 0;
}

void symbols_build_id_print(struct strbuf *buffer, const struct symbols_build_id *id)
{
	for (size_t i = 0; i < id->count; i++)
		strbuf_printf(buffer, "%02x", id->bytes[i]);
}

int symbols_file_open(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		errno = EINVAL;
		return -1;
	}
	return fd;
}

static void refuse(struct symbols_search *search, const char *path, const char *why)
{
	log_debug("%s: %s", path, why);
	strbuf_printf(&search->refused, "%s%s (%s)", search->refused.length > 0 ? ", " : "", path,
		      why);
}

/* The CRC of .gnu_debuglink, that of zlib: polynomial 0x04c11db7, reflected. */
static bool file_crc(int fd, uint32_t *ret)
{
	static uint32_t table[256];
	uint8_t buffer[1 << 16];
	uint32_t crc = UINT32_MAX;
	off_t at = 0;
	ssize_t n;

	for (uint32_t i = 0; i < 256 && !table[255]; i++) {
		uint32_t value = i;

		for (int bit = 0; bit < 8; bit++)
			value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
		table[i] = value;
	}
	while ((n = pread(fd, buffer, sizeof(buffer), at)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			crc = crc >> 8 ^ table[(crc ^ buffer[i]) & 0xff];
		at += n;
	}
	*ret = ~crc;
	return n == 0;
}

/* What a candidate must match: an id, or where that cannot be had, a CRC. */
struct wanted {
	const struct symbols_build_id *id;
	const uint32_t *crc; /* NULL = the id alone counts */
};

/* NULL = it is the file wanted. */
static const char *mismatch(int fd, const struct wanted *wanted)
{
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	uint32_t crc;

	if (!elf || elf_kind(elf) != ELF_K_ELF) {
		elf_end(elf);
		return "not an ELF file";
	}
	struct symbols_build_id id = symbols_build_id_of(elf);

	elf_end(elf);
	if (wanted->id->count > 0 && (id.count > 0 || !wanted->crc))
		return symbols_build_id_equal(&id, wanted->id) ? NULL : "of another build-id";
	if (!file_crc(fd, &crc))
		return "cannot be read";
	return wanted->crc && crc == *wanted->crc ? NULL : "its CRC is not the link's";
}

/* The path's file if it is the one wanted. Takes path over: it goes to ret_path or is
 * freed. */
static int try(struct symbols_search *search, char *path, const struct wanted *wanted,
	       char **ret_path)
{
	CLEANUP_FREE char *mine = path;
	CLEANUP_FD int fd = mine ? symbols_file_open(mine) : -1;

	if (fd < 0) {
		if (mine && errno == ENOENT)
			log_debug("%s: not there", mine);
		else if (mine)
			refuse(search, mine, strerror(errno));
		return -1;
	}
	const char *why = mismatch(fd, wanted);

	if (why) {
		refuse(search, mine, why);
		return -1;
	}
	log_debug("%s: in use", mine);
	*ret_path = STEAL(mine);
	return cleanup_steal_fd(&fd);
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

static size_t directory_count(const struct symbols_search *search)
{
	return search->options->debug_directories ? search->options->debug_directory_count : 1;
}

static const char *directory_at(const struct symbols_search *search, size_t i)
{
	return search->options->debug_directories ? search->options->debug_directories[i]
						  : default_directories[i];
}

static int search_id(struct symbols_search *search, const struct symbols_build_id *id,
		     char **ret_path)
{
	CLEANUP_STRBUF struct strbuf rest = STRBUF_EMPTY;
	const struct wanted wanted = {.id = id};
	int fd = -1;

	if (id->count < 2)
		return -1;
	for (size_t i = 1; i < id->count; i++)
		strbuf_printf(&rest, "%02x", id->bytes[i]);
	for (size_t i = 0; i < directory_count(search) && fd < 0 && !rest.failed; i++)
		fd = try(search,
			 format("%s/.build-id/%02x/%s.debug", directory_at(search, i), id->bytes[0],
				rest.text),
			 &wanted, ret_path);
	return fd;
}

int symbols_search_build_id(struct symbols_search *search, char **ret_path)
{
	return search_id(search, &search->build_id, ret_path);
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
			    const struct wanted *wanted, char **ret_path)
{
	int fd = try(search, format("%s%s", directory, name), wanted, ret_path);

	if (fd < 0)
		fd = try(search, format("%s.debug/%s", directory, name), wanted, ret_path);
	for (size_t i = 0; i < directory_count(search) && fd < 0 && *directory == '/'; i++) {
		const char *root = directory_at(search, i);

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
	const struct wanted wanted = {.id = &search->build_id, .crc = link ? &crc : NULL};
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

int symbols_search_alternate(struct symbols_search *search, const char *path, char **ret_path)
{
	const struct wanted wanted = {.id = &search->alternate_id};
	int fd = search_id(search, &search->alternate_id, ret_path);

	if (fd >= 0 || !search->alternate)
		return fd;
	if (search->alternate[0] == '/')
		return try(search, strdup(search->alternate), &wanted, ret_path);

	CLEANUP_FREE char *real = realpath(path, NULL);
	CLEANUP_FREE char *directory = directory_of(real ? real : path);

	if (!directory)
		return -1;
	return try(search, format("%s%s", directory, search->alternate), &wanted, ret_path);
}
