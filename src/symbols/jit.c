#include "symbols/jit.h"

#include <string.h>

void symbols_jit_free(struct symbols_jit *jit)
{
	vector_free(&jit->pcs);
	strbuf_free(&jit->names);
	*jit = (struct symbols_jit)SYMBOLS_JIT_EMPTY;
}

struct error *symbols_jit_add(struct symbols_jit *jit, uint64_t pc)
{
	return vector_push(&jit->pcs, ((struct symbols_jit_pc){.pc = pc}));
}

static int compare_pcs(const void *a, const void *b)
{
	const struct symbols_jit_pc *x = a, *y = b;

	return (x->pc > y->pc) - (x->pc < y->pc);
}

void symbols_jit_sort(struct symbols_jit *jit)
{
	if (jit->pcs.count)
		qsort(jit->pcs.items, jit->pcs.count, sizeof(*jit->pcs.items), compare_pcs);
}

size_t symbols_jit_first(const struct symbols_jit *jit, uint64_t address)
{
	size_t low = 0, high = jit->pcs.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (jit->pcs.items[middle].pc < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct symbols_jit_pc *symbols_jit_find(const struct symbols_jit *jit, uint64_t pc)
{
	size_t at = symbols_jit_first(jit, pc);

	return at < jit->pcs.count && jit->pcs.items[at].pc == pc ? &jit->pcs.items[at] : NULL;
}

const char *symbols_jit_text(const struct symbols_jit *jit, size_t place)
{
	return place ? jit->names.text + place - 1 : NULL;
}

struct error *symbols_jit_keep(struct symbols_jit *jit, const char *text, size_t length,
			       size_t *ret)
{
	size_t place = jit->names.length + 1;

	length = strnlen(text, length < SYMBOLS_JIT_NAME ? length : SYMBOLS_JIT_NAME);
	*ret = 0;
	if (length == 0 || jit->names.length + length >= SYMBOLS_JIT_TEXT)
		return NULL;
	strbuf_append_bytes(&jit->names, text, length);
	strbuf_append_char(&jit->names, '\0');
	TRY(strbuf_result(&jit->names));
	*ret = place;
	return NULL;
}

/* Takes :DIGITS off the end; the length without them, or the whole if there are none. */
static size_t take_number(const char *text, size_t length, uint32_t *ret)
{
	size_t at = length;
	uint64_t value = 0, scale = 1;

	*ret = 0;
	while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && length - at < 9) {
		value += (uint64_t)(text[--at] - '0') * scale;
		scale *= 10;
	}
	if (at == length || at == 0 || text[at - 1] != ':')
		return length;
	*ret = (uint32_t)value;
	return at - 1;
}

struct parts {
	size_t function; /* bytes of it, from the name's beginning */
	size_t file;     /* where it begins; 0 = there is none */
	size_t file_bytes;
	uint32_t line;
	uint32_t column;
};

/* Absolute, a URL, or a single word: a function may have blanks in its name, too. */
static bool is_file(const char *text, size_t length)
{
	size_t scheme = 0;

	while (scheme < length && text[scheme] >= 'a' && text[scheme] <= 'z')
		scheme++;
	return text[0] == '/' || !memchr(text, ' ', length) ||
	       (length - scheme > 3 && memcmp(text + scheme, "://", 3) == 0);
}

/* V8 says "JS:*sort /srv/table.js:20:17", an older one :20: where the function begins. */
static struct parts split(const char *name, size_t length)
{
	struct parts parts = {.function = length};
	uint32_t column, line;
	size_t without = take_number(name, length, &column);
	size_t end = take_number(name, without, &line);
	bool has_column = end != without;

	if (without == length)
		return parts;
	if (!has_column) {
		line = column;
		column = 0;
	}
	for (size_t at = 1; at + 1 < end; at++) {
		const char *file = name + at + 1;
		size_t bytes = end - at - 1;

		if (name[at] != ' ' || !is_file(file, bytes) ||
		    (!has_column && !memchr(file, '/', bytes)))
			continue;
		return (struct parts){at, at + 1, bytes, line, column};
	}
	return parts;
}

struct error *symbols_jit_name(struct symbols_jit *jit, uint64_t start, uint64_t size,
			       const char *name, size_t length)
{
	struct symbols_jit_pc found = {0};

	for (size_t i = symbols_jit_first(jit, start); i < jit->pcs.count; i++) {
		struct symbols_jit_pc *pc = &jit->pcs.items[i];

		if (pc->pc - start >= size || ++jit->work > SYMBOLS_JIT_WORK)
			break;
		if (found.pc == 0) {
			struct parts parts = split(name, length);

			found.line = parts.line;
			found.column = parts.column;
			TRY(symbols_jit_keep(jit, name, parts.function, &found.function));
			TRY(symbols_jit_keep(jit, name + parts.file, parts.file_bytes,
					     &found.file));
		}
		/* Of two functions at one address in turn the later one may have no name. */
		jit->named -= pc->function != 0;
		jit->named += found.function != 0;
		jit->lined -= pc->is_lined;
		found.pc = pc->pc;
		*pc = found;
	}
	return NULL;
}
