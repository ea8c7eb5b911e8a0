#include "agent/symtab.h"

#include <string.h>

#include "agent/syscall.h"
#include "ledger/layout.h"

#define SECTIONS_MOST 512u
#define SEGMENTS_MOST 64u
/* A large browser with all its symbols has some 100 MiB of names. */
#define NAMES_MOST  (UINT64_C(256) << 20)
#define CHUNK_COUNT 2048u
#define FIRST_BYTES 1024u /* up to the build-id, as linkers place it */

/* In one, for a file with few of them takes a page of it. */
static struct {
	Elf64_Phdr segment[SEGMENTS_MOST];
	_Alignas(8) uint8_t first[FIRST_BYTES];
	Elf64_Shdr section[SECTIONS_MOST];
	Elf64_Sym symbol[CHUNK_COUNT];
} room;

struct table {
	uint64_t symbols_at, symbol_count;
	uint64_t names_at, names_bytes;
	char *names;
};

static bool read_at(int fd, void *to, uint64_t bytes, uint64_t at)
{
	uint8_t *p = to;

	while (bytes) {
		long n = sys_call6(SYS_pread64, fd, (long)p, (long)bytes, (long)at, 0, 0);

		if (n <= 0)
			return false;
		p += n;
		at += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
	return true;
}

/* --- the file ---------------------------------------------------------------------------- */

static bool is_elf(const Elf64_Ehdr *header)
{
	return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
	       header->e_ident[EI_CLASS] == ELFCLASS64 &&
	       header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum <= SEGMENTS_MOST;
}

/* The kernel copies the set before it finds that there is no such way to use it. */
static bool is_readable(uintptr_t at)
{
	return sys_sigprocmask(-1, (const uint64_t *)at, NULL) != -14 /* EFAULT */;
}

/* The file begins as the module does in memory, with what names this build of it: it was not put
 * in its place since. If it was, it may say that it lies where nothing is. */
static bool is_file_of(uintptr_t start, uint64_t bytes)
{
	return start % MGL_PAGE == 0 && is_readable(start) &&
	       memcmp(room.first, (const void *)start, bytes) == 0;
}

/* As a rule they follow the header, and have been read with it. */
static const Elf64_Phdr *headers_read(const struct symtab *s, uint64_t first_bytes)
{
	uint64_t bytes = s->header.e_phnum * sizeof(room.segment[0]), at = s->header.e_phoff;

	if (at < first_bytes && bytes <= first_bytes - at) {
		memcpy(room.segment, room.first + at, bytes);
		return room.segment;
	}
	return read_at(s->fd, room.segment, bytes, at) ? room.segment : NULL;
}

/* What begins the file is mapped first, at *start: *bytes of it are there as they are in the file. */
static bool segments_read(struct symtab *s, uintptr_t *start, uint64_t *bytes)
{
	const Elf64_Phdr *p = headers_read(s, *bytes);
	uint32_t texts = 0;

	*start = 0;
	for (uint32_t i = 0; p && i < s->header.e_phnum; i++, p++) {
		uintptr_t at = s->map->l_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD)
			continue;
		if (p->p_offset == 0) {
			*start = at;
			if ((p->p_flags & PF_W) || p->p_filesz < *bytes)
				*bytes = sizeof(s->header);
		}
		if ((p->p_flags & (PF_R | PF_X)) != (PF_R | PF_X) || texts == SYMTAB_TEXTS ||
		    at + p->p_filesz < at)
			continue;
		s->text[texts].start = at;
		s->text[texts++].stop = at + p->p_filesz;
	}
	return *start && texts;
}

static bool file_read(struct symtab *s)
{
	long n = sys_call6(SYS_pread64, s->fd, (long)room.first, FIRST_BYTES, 0, 0, 0);
	uintptr_t start;
	uint64_t bytes;

	if (n < (long)sizeof(s->header))
		return false;
	memcpy(&s->header, room.first, sizeof(s->header));
	bytes = (uint64_t)n;
	return is_elf(&s->header) && segments_read(s, &start, &bytes) && is_file_of(start, bytes);
}

bool symtab_open(struct symtab *ret, const char *path, const struct link_map *map)
{
	*ret = (struct symtab){
		.fd = (int)sys_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0),
		.map = map,
	};
	if (ret->fd < 0)
		return false;
	if (file_read(ret))
		return true;
	sys_close(ret->fd);
	return false;
}

void symtab_close(const struct symtab *s) { sys_close(s->fd); }

uintptr_t symtab_text_stop(const struct symtab *s, uintptr_t at)
{
	for (uint32_t i = 0; i < SYMTAB_TEXTS; i++) {
		if (at >= s->text[i].start && at < s->text[i].stop)
			return s->text[i].stop;
	}
	return 0;
}

uintptr_t symtab_text_start(const struct symtab *s, uintptr_t at)
{
	for (uint32_t i = 0; i < SYMTAB_TEXTS; i++) {
		if (at >= s->text[i].start && at < s->text[i].stop)
			return s->text[i].start;
	}
	return 0;
}

/* --- its symbols -------------------------------------------------------------------------- */

static bool table_find(struct table *t, const struct symtab *s)
{
	uint32_t count = s->header.e_shnum;

	if (count > SECTIONS_MOST || s->header.e_shentsize != sizeof(room.section[0]) ||
	    !read_at(s->fd, room.section, count * sizeof(room.section[0]), s->header.e_shoff))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const Elf64_Shdr *section = &room.section[i];

		if (section->sh_type != SHT_SYMTAB || section->sh_entsize != sizeof(Elf64_Sym) ||
		    section->sh_link >= count)
			continue;
		t->symbols_at = section->sh_offset;
		t->symbol_count = section->sh_size / sizeof(Elf64_Sym);
		t->names_at = room.section[section->sh_link].sh_offset;
		t->names_bytes = room.section[section->sh_link].sh_size;
		return t->names_bytes != 0;
	}
	return false;
}

static void visit_chunk(const struct table *t, const struct link_map *map, uint64_t count,
			symtab_visit *visit, void *context)
{
	for (uint64_t i = 0; i < count; i++) {
		const Elf64_Sym *s = &room.symbol[i];
		unsigned char type = ELF64_ST_TYPE(s->st_info);

		if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s->st_shndx == SHN_UNDEF ||
		    s->st_name >= t->names_bytes)
			continue;
		visit(context, t->names + s->st_name,
		      &(struct image_symbol){map->l_addr + s->st_value, s->st_size, type});
	}
}

static void visit_all(const struct table *t, const struct symtab *s, symtab_visit *visit,
		      void *context)
{
	if (!read_at(s->fd, t->names, t->names_bytes, t->names_at))
		return;
	t->names[t->names_bytes - 1] = '\0';
	for (uint64_t i = 0; i < t->symbol_count; i += CHUNK_COUNT) {
		uint64_t count =
			t->symbol_count - i < CHUNK_COUNT ? t->symbol_count - i : CHUNK_COUNT;

		if (!read_at(s->fd, room.symbol, count * sizeof(room.symbol[0]),
			     t->symbols_at + i * sizeof(room.symbol[0])))
			return;
		visit_chunk(t, s->map, count, visit, context);
	}
}

bool symtab_each(const struct symtab *s, symtab_visit *visit, void *context)
{
	struct table t;

	if (!table_find(&t, s))
		return true;
	if (t.names_bytes > NAMES_MOST)
		return false;
	t.names = sys_mmap(NULL, t.names_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	if (sys_failed(t.names))
		return false;
	visit_all(&t, s, visit, context);
	sys_munmap(t.names, t.names_bytes);
	return true;
}
