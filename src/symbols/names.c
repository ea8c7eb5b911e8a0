#include "symbols/names.h"

#include <dwarf.h>
#include <string.h>

#include "base/strbuf.h"
#include "symbols/demangle.h"

/* A few hundred characters can demangle to a megabyte: a file full of such must not fill
 * the memory. No program's names come near it. */
#define BUDGET ((size_t)256 << 20)

/* Damaged files only go further. */
#define MAX_DEPTH 64u

struct error *symbols_names_init(struct symbols_names *names)
{
	*names = (struct symbols_names){.budget = BUDGET};
	TRY(vector_push(&names->strings, NULL));
	return vector_push(&names->scopes, (struct symbols_scope){0});
}

void symbols_names_free(struct symbols_names *names)
{
	for (size_t i = 0; i < names->strings.count; i++)
		free(names->strings.items[i]);
	vector_free(&names->strings);
	vector_free(&names->scopes);
	map_u64_free(&names->demangled);
	map_u64_free(&names->qualified);
	map_u64_free(&names->symbols);
	map_u64_free(&names->roots);
	symbols_bounds_free(&names->bounds);
}

/* Takes text over. */
static struct error *remember(struct symbols_names *names, struct map_u64 *map, const void *key,
			      char *text)
{
	uint64_t place = 0;

	if (text) {
		struct error *error = vector_push(&names->strings, text);

		if (error) {
			free(text);
			return error;
		}
		place = names->strings.count - 1;
	}
	return map_u64_set(map, (uintptr_t)key, place);
}

static bool recall(const struct symbols_names *names, const struct map_u64 *map, const void *key,
		   const char **ret)
{
	const uint64_t *place = map_u64_find(map, (uintptr_t)key);

	if (place)
		*ret = names->strings.items[*place];
	return place != NULL;
}

static struct error *demangle(struct symbols_names *names, const char *mangled, char **ret)
{
	*ret = NULL;
	if (names->budget == 0)
		return NULL;
	TRY(symbols_demangle(mangled, ret));

	size_t length = *ret ? strlen(*ret) : 0;

	names->budget = length < names->budget ? names->budget - length : 0;
	return NULL;
}

/* *ret NULL = not mangled. */
static struct error *demangle_once(struct symbols_names *names, const char *mangled,
				   const char **ret)
{
	char *text;

	if (recall(names, &names->demangled, mangled, ret))
		return NULL;
	TRY(demangle(names, mangled, &text));
	*ret = text;
	return remember(names, &names->demangled, mangled, text);
}

/* The DIE at the end of abstract origins and specifications: the declaration, which stands
 * where the source has it. */
static Dwarf_Die declaration_of(const Dwarf_Die *die)
{
	Dwarf_Die at = *die;

	for (unsigned i = 0; i < MAX_DEPTH; i++) {
		Dwarf_Attribute attribute;
		Dwarf_Die next;
		Dwarf_Attribute *found = dwarf_attr(&at, DW_AT_abstract_origin, &attribute);

		if (!found)
			found = dwarf_attr(&at, DW_AT_specification, &attribute);
		if (!dwarf_formref_die(found, &next))
			break;
		at = next;
	}
	return at;
}

static bool is_type(int tag)
{
	return tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
	       tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type ||
	       tag == DW_TAG_interface_type;
}

static bool is_scope(int tag)
{
	return is_type(tag) || tag == DW_TAG_namespace || tag == DW_TAG_module ||
	       tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block;
}

static struct error *load_children(struct symbols_names *names, uint32_t place)
{
	Dwarf_Die die;
	int result = dwarf_child(&names->scopes.items[place].die, &die);

	names->scopes.items[place].first = (uint32_t)names->scopes.count;
	while (result == 0) {
		if (is_scope(dwarf_tag(&die)))
			TRY(vector_push(&names->scopes,
					((struct symbols_scope){.die = die,
								.offset = dwarf_dieoffset(&die)})));
		result = dwarf_siblingof(&die, &die);
	}
	names->scopes.items[place].count =
		(uint32_t)(names->scopes.count - names->scopes.items[place].first);
	return NULL;
}

/* The last child that starts at or before offset; 0 = none. */
static uint32_t child_before(const struct symbols_names *names, uint32_t place, Dwarf_Off offset)
{
	uint32_t low = names->scopes.items[place].first;
	uint32_t high = low + names->scopes.items[place].count;
	uint32_t first = low;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (names->scopes.items[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low > first ? low - 1 : 0;
}

static struct error *root_of(struct symbols_names *names, Dwarf_Die *die, uint32_t *ret)
{
	const uint64_t *place = map_u64_find(&names->roots, (uintptr_t)die->cu);
	struct symbols_scope scope = {0};

	*ret = place ? (uint32_t)*place : 0;
	if (place || !dwarf_diecu(die, &scope.die, NULL, NULL))
		return NULL;
	*ret = (uint32_t)names->scopes.count;
	TRY(vector_push(&names->scopes, scope));
	return map_u64_set(&names->roots, (uintptr_t)die->cu, *ret);
}

/* Adds what a scope is called; an unnamed type waits for what comes next, which tells what
 * it is. */
static void add_part(struct strbuf *text, const char *part, bool *is_unnamed)
{
	if (*is_unnamed)
		strbuf_append(text,
			      strcmp(part, "operator()") == 0 ? "{lambda}::" : "{unnamed type}::");
	*is_unnamed = false;
	strbuf_append(text, part);
}

static struct error *add_scope(struct symbols_names *names, struct strbuf *text, Dwarf_Die *scope,
			       bool *is_unnamed)
{
	const char *part;

	TRY(symbols_bounds_string(&names->bounds, scope, DW_AT_name, &part));
	if (!part && dwarf_tag(scope) == DW_TAG_namespace)
		part = "(anonymous namespace)";
	if (part) {
		add_part(text, part, is_unnamed);
		strbuf_append(text, "::");
	} else if (is_type(dwarf_tag(scope))) {
		*is_unnamed = true;
	}
	return NULL;
}

/* C has no scopes to speak of; other languages mangle or qualify every name. Where dwz put
 * a declaration in a unit of its own, the unit has no language. */
static bool needs_scopes(Dwarf_Die *die)
{
	Dwarf_Die unit;

	if (!dwarf_diecu(die, &unit, NULL, NULL))
		return false;
	switch (dwarf_srclang(&unit)) {
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	case 0x2b: /* C++17, C++20: newer than DWARF 5 */
	case 0x2c:
	case DW_LANG_D:
	case DW_LANG_Rust:
	case -1:
		return true;
	default:
		return false;
	}
}

/* extern "C" in a namespace is named as in C. */
static bool is_extern_c(Dwarf_Die *die, bool in_class)
{
	Dwarf_Attribute attribute;
	bool external = false;

	return !in_class &&
	       dwarf_formflag(dwarf_attr(die, DW_AT_external, &attribute), &external) == 0 &&
	       external;
}

static struct error *qualify(struct symbols_names *names, Dwarf_Die *die, const char *plain,
			     char **ret)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;
	Dwarf_Off offset = dwarf_dieoffset(die);
	bool in_class = false, is_unnamed = false;
	uint32_t place;

	*ret = NULL;
	TRY(root_of(names, die, &place));
	for (unsigned depth = 0; place && depth < MAX_DEPTH; depth++) {
		if (names->scopes.items[place].first == 0)
			TRY(load_children(names, place));
		place = child_before(names, place, offset);
		if (!place || names->scopes.items[place].offset == offset)
			break;

		Dwarf_Die scope = names->scopes.items[place].die;

		in_class |= is_type(dwarf_tag(&scope));
		TRY(add_scope(names, &text, &scope, &is_unnamed));
	}
	if (!place || is_extern_c(die, in_class))
		return NULL;
	add_part(&text, plain, &is_unnamed);
	TRY(strbuf_result(&text));
	*ret = strbuf_take(&text);
	return NULL;
}

static struct error *mangled_name(struct symbols_names *names, Dwarf_Die *die, const char **ret)
{
	TRY(symbols_bounds_string(&names->bounds, die, DW_AT_linkage_name, ret));
	if (*ret)
		return NULL;
	return symbols_bounds_string(&names->bounds, die, DW_AT_MIPS_linkage_name, ret);
}

static bool has_mangled_name(Dwarf_Die *die)
{
	return dwarf_hasattr_integrate(die, DW_AT_linkage_name) ||
	       dwarf_hasattr_integrate(die, DW_AT_MIPS_linkage_name);
}

struct error *symbols_names_of_die(struct symbols_names *names, Dwarf_Die *die, const char **ret)
{
	const char *mangled, *name = NULL;
	char *qualified = NULL;

	TRY(mangled_name(names, die, &mangled));
	if (mangled)
		TRY(demangle_once(names, mangled, &name));
	*ret = name;
	if (name)
		return NULL;
	/* In C the mangled name is an alias for the linker; the source's is better. */
	TRY(symbols_bounds_string(&names->bounds, die, DW_AT_name, ret));
	if (!*ret) {
		*ret = mangled;
		return NULL;
	}
	Dwarf_Die declaration = declaration_of(die);

	if (mangled || !needs_scopes(&declaration))
		return NULL;
	if (!recall(names, &names->qualified, declaration.addr, &name)) {
		TRY(qualify(names, &declaration, *ret, &qualified));
		TRY(remember(names, &names->qualified, declaration.addr, qualified));
		name = qualified;
	}
	if (name)
		*ret = name;
	return NULL;
}

bool symbols_names_may_improve(Dwarf_Die *die, const char *name)
{
	Dwarf_Die declaration = declaration_of(die);

	return name && (name[0] == '_' || (!has_mangled_name(die) && needs_scopes(&declaration)));
}

struct error *symbols_names_improve(struct symbols_names *names, Dwarf_Die *die, const char *symbol,
				    const char **ret)
{
	const char *plain, *name;
	bool is_mangled = symbol[0] == '_' && symbol[1] == 'Z';

	TRY(symbols_bounds_string(&names->bounds, die, DW_AT_name, &plain));
	if (!plain || (symbol[0] == '_' && !is_mangled))
		return NULL;
	TRY(symbols_names_of_symbol(names, symbol, &name));
	if (!is_mangled) {
		if (**ret == '_')
			*ret = name;
		return NULL;
	}
	/* Functions the linker found equal share one place, and the symbol may be another's.
	 * A template's arguments are not spelled alike. */
	if (memmem(name, strlen(name), plain, strcspn(plain, "<")))
		*ret = name;
	return NULL;
}

/* Whether text[0..length) ends in a dot and a word, at *ret. */
static bool last_part(const char *text, size_t length, const char **ret)
{
	const char *dot = length > 0 ? memrchr(text + 1, '.', length - 1) : NULL;

	*ret = dot ? dot + 1 : NULL;
	return dot != NULL;
}

/* What compilers put behind the name of a function they split or specialised. */
static size_t without_clones(const char *symbol, size_t length)
{
	static const char *const words[] = {"cold", "constprop", "isra",
					    "part", "lto_priv",  "llvm"};
	size_t at = length;
	const char *part;

	while (last_part(symbol, at, &part)) {
		size_t part_length = at - (size_t)(part - symbol);
		bool is_known = false;

		at -= part_length + 1;
		if (part_length > 0 && strspn(part, "0123456789") >= part_length)
			continue;
		for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
			is_known |= strlen(words[i]) == part_length &&
				    memcmp(words[i], part, part_length) == 0;
		if (!is_known)
			break;
		length = at;
	}
	return length;
}

struct error *symbols_names_of_symbol(struct symbols_names *names, const char *symbol,
				      const char **ret)
{
	if (recall(names, &names->symbols, symbol, ret))
		return NULL;
	const char *version = strchr(symbol + 1, '@');
	size_t length = version ? (size_t)(version - symbol) : strlen(symbol);
	char *bare = strndup(symbol, without_clones(symbol, length)), *text = NULL;

	if (!bare)
		return error_no_memory();
	struct error *error = demangle(names, bare, &text);

	if (text)
		free(bare);
	else
		text = bare;
	*ret = text;
	return error ? error : remember(names, &names->symbols, symbol, text);
}
