#include "symbols/symtab.h"

#include <string.h>

/* One symbol on its way into the table. */
struct candidate {
	uint64_t low;
	uint64_t high; /* of a function without a size: where its section ends */
	uint32_t rank;
	uint32_t name;
	bool is_sized;
};

typedef VECTOR(struct candidate) candidates;

/* What the symbols of one ELF file have in common; they come file by file. */
struct origin {
	Elf *elf;
	bool has_symtab;
};

static bool has_symtab(Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section)) != NULL)
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_SYMTAB)
			return true;
	return false;
}

/* Of several names of one function: read rather than __read, and rather a public name. The
 * last word is the shorter one's. */
static uint32_t rank_of(const char *name, const GElf_Sym *symbol)
{
	size_t underscores = strspn(name, "_");
	size_t length = strcspn(name, "@"); /* without the version */
	bool is_mangled = underscores == 1 && (name[1] == 'Z' || name[1] == 'R' || name[1] == 'D');
	uint32_t rank = is_mangled ? 0 : underscores < 15 ? (uint32_t)underscores : 15;

	rank = rank << 1 | (GELF_ST_BIND(symbol->st_info) == STB_LOCAL);
	return rank << 16 | (length < UINT16_MAX ? (uint32_t)length : UINT16_MAX);
}

static bool is_function(const GElf_Sym *symbol, const GElf_Shdr *section)
{
	switch (GELF_ST_TYPE(symbol->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return true;
	case STT_NOTYPE:
		return section->sh_flags & SHF_EXECINSTR;
	default:
		return false;
	}
}

/* Sections outside of the loaded image have no place in the address space. */
static bool section_of(Elf *elf, GElf_Word index, GElf_Shdr *ret)
{
	Elf_Scn *section = index != SHN_UNDEF ? elf_getscn(elf, index) : NULL;

	return section && gelf_getshdr(section, ret) && ret->sh_flags & SHF_ALLOC;
}

static struct error *take(struct symbols_symtab *symtab, candidates *all, const char *name,
			  const GElf_Sym *symbol, uint64_t address, const GElf_Shdr *section)
{
	struct candidate candidate = {
		.low = address,
		.rank = rank_of(name, symbol),
		.name = (uint32_t)symtab->names.count,
		.is_sized = symbol->st_size > 0,
	};
	uint64_t left = section->sh_size - (symbol->st_value - section->sh_addr);

	candidate.high =
		address + (candidate.is_sized && symbol->st_size < left ? symbol->st_size : left);
	TRY(vector_push(&symtab->names, name));
	return vector_push(all, candidate);
}

static struct error *collect(Dwfl_Module *module, struct symbols_symtab *symtab, candidates *all)
{
	int count = dwfl_module_getsymtab(module);
	struct origin origin = {0};

	for (int i = 1; i < count; i++) {
		GElf_Sym symbol;
		GElf_Shdr section;
		GElf_Addr address;
		GElf_Word index;
		Elf *elf;
		const char *name =
			dwfl_module_getsym_info(module, i, &symbol, &address, &index, &elf, NULL);

		if (!name || !*name || !elf)
			continue;
		if (elf != origin.elf) {
			origin = (struct origin){.elf = elf, .has_symtab = has_symtab(elf)};
			symtab->is_full |= origin.has_symtab;
		}
		/* .L labels are within functions. */
		if (!section_of(elf, index, &section) || !is_function(&symbol, &section) ||
		    symbol.st_value < section.sh_addr ||
		    symbol.st_value - section.sh_addr >= section.sh_size || name[0] == '.' ||
		    (symbol.st_size == 0 && !origin.has_symtab))
			continue;
		TRY(take(symtab, all, name, &symbol, address, &section));
	}
	return NULL;
}

static int compare_low(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return a->low < b->low ? -1 : a->low > b->low;
}

/* A function without a size ends where the next symbol begins. */
static struct error *sort_in(struct symbols_symtab *symtab, candidates *all)
{
	uint64_t next = UINT64_MAX;

	if (all->count > 0)
		qsort(all->items, all->count, sizeof(*all->items), compare_low);
	for (size_t i = all->count; i-- > 0;) {
		const struct candidate *c = &all->items[i];
		uint64_t high = c->is_sized || c->high < next ? c->high : next;

		TRY(symbols_intervals_add(c->is_sized ? &symtab->sized : &symtab->unsized, c->low,
					  high, c->rank, c->name));
		if (i > 0 && all->items[i - 1].low < c->low)
			next = c->low;
	}
	symbols_intervals_seal(&symtab->sized);
	symbols_intervals_seal(&symtab->unsized);
	return NULL;
}

struct error *symbols_symtab_load(Dwfl_Module *module, struct symbols_symtab *ret)
{
	candidates all = VECTOR_EMPTY;
	struct error *error = collect(module, ret, &all);

	if (!error)
		error = sort_in(ret, &all);
	vector_free(&all);
	return error;
}

const char *symbols_symtab_find(const struct symbols_symtab *symtab, uint64_t address)
{
	size_t position = SYMBOLS_INTERVALS_FIRST;
	const struct symbols_interval *found =
		symbols_intervals_next(&symtab->sized, address, &position);

	if (!found) {
		position = SYMBOLS_INTERVALS_FIRST;
		found = symbols_intervals_next(&symtab->unsized, address, &position);
	}
	return found ? symtab->names.items[found->value] : NULL;
}

void symbols_symtab_free(struct symbols_symtab *symtab)
{
	symbols_intervals_free(&symtab->sized);
	symbols_intervals_free(&symtab->unsized);
	vector_free(&symtab->names);
}
