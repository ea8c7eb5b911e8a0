#include "symbols/candidate.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/stat.h>

#include "symbols/limits.h"

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
	if (fd >= 0)
		symbols_limits_add_file((uint64_t)st.st_size);
	return fd;
}

/* The CRC of .gnu_debuglink, that of zlib: polynomial 0x04c11db7, reflected. */
static bool file_crc(int fd, uint32_t *ret)
{
	static uint32_t table[256];
	uint8_t buffer[1 << 13];
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

static bool has_section(Elf *elf, const char *wanted)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return false;
	while ((section = elf_nextscn(elf, section)) != NULL) {
		const char *name = gelf_getshdr(section, &header) && header.sh_type != SHT_NOBITS
					   ? elf_strptr(elf, names, header.sh_name)
					   : NULL;

		if (name && (strcmp(name, wanted) == 0 ||
			     (strncmp(name, ".z", 2) == 0 && strcmp(name + 2, wanted + 1) == 0)))
			return true;
	}
	return false;
}

enum symbols_outcome symbols_debug_outcome(Elf *elf)
{
	bool has_lines = has_section(elf, ".debug_line");

	if (!has_section(elf, ".debug_info"))
		return SYMBOLS_OUTCOME_NO_DEBUG;
	return has_lines ? SYMBOLS_OUTCOME_FOUND : SYMBOLS_OUTCOME_NO_LINES;
}

static enum symbols_outcome found(Elf *elf, const struct symbols_wanted *wanted)
{
	return wanted->is_dwz ? SYMBOLS_OUTCOME_FOUND : symbols_debug_outcome(elf);
}

static enum symbols_outcome match(Elf *elf, int fd, const struct symbols_wanted *wanted,
				  struct strbuf *detail)
{
	uint32_t crc;

	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return SYMBOLS_OUTCOME_NOT_ELF;

	struct symbols_build_id id = symbols_build_id_of(elf);

	if (wanted->id->count > 0 && (id.count > 0 || !wanted->crc)) {
		if (symbols_build_id_equal(&id, wanted->id))
			return found(elf, wanted);
		symbols_build_id_print(detail, &id);
		if (id.count == 0)
			strbuf_append(detail, "none");
		return SYMBOLS_OUTCOME_OTHER_BUILD_ID;
	}
	if (!file_crc(fd, &crc)) {
		strbuf_append(detail, "cannot be read");
		return SYMBOLS_OUTCOME_UNREADABLE;
	}
	return wanted->crc && crc == *wanted->crc ? found(elf, wanted) : SYMBOLS_OUTCOME_OTHER_CRC;
}

enum symbols_outcome symbols_candidate_match(int fd, const struct symbols_wanted *wanted,
					     struct strbuf *detail)
{
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	enum symbols_outcome outcome = match(elf, fd, wanted, detail);

	elf_end(elf);
	return outcome;
}
