#include "analyze/alike.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vector.h"

#define SMALL_PEAK (UINT64_C(64) << 10)

struct kind {
	uint32_t program;
	unsigned int peak; /* its power of two; 0 = small */
	struct analyze_text name;
	struct analyze_text manner;
};

struct sorting {
	VECTOR(struct kind) kinds;
	struct map_index index;
	const struct kind *wanted;
};

static struct analyze_text argument_at(const struct analyze_text *argv, size_t at)
{
	struct analyze_text word = {.bytes = "", .length = 0};

	if (at >= argv->length)
		return word;
	word.bytes = argv->bytes + at;
	const char *end = memchr(word.bytes, 0, argv->length - at);

	word.length = end ? (size_t)(end - word.bytes) : argv->length - at;
	return word;
}

/* "pack-objects", "-c": a word that says what is done. One of another form is what it is done
 * to, of which there are many. */
static bool is_manner(const struct analyze_text *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

	for (size_t i = 0; i < word->length; i++)
		if (!memchr(plain, word->bytes[i], sizeof(plain) - 1))
			return false;
	return true;
}

static struct kind kind_of(const struct analyze_process *process, uint32_t program)
{
	struct kind kind = {.program = program, .name = argument_at(&process->argv, 0)};

	kind.manner = argument_at(&process->argv, kind.name.length + 1);
	if (!is_manner(&kind.manner))
		kind.manner.length = 0;
	if (process->counts.peak_bytes >= SMALL_PEAK)
		kind.peak = 63 - (unsigned int)__builtin_clzll(process->counts.peak_bytes);
	return kind;
}

static bool same_text(const struct analyze_text *a, const struct analyze_text *b)
{
	return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

static bool same_kind(void *context, uint32_t position)
{
	const struct sorting *sorting = context;
	const struct kind *kind = &sorting->kinds.items[position], *wanted = sorting->wanted;

	return kind->program == wanted->program && kind->peak == wanted->peak &&
	       same_text(&kind->name, &wanted->name) && same_text(&kind->manner, &wanted->manner);
}

static struct error *find_kind(struct sorting *sorting, const struct kind *kind, uint32_t *ret)
{
	uint64_t hash = map_hash(map_hash(kind->program ^ (uint64_t)kind->peak << 32) ^
				 map_hash_bytes(kind->name.bytes, kind->name.length));

	hash = map_hash(hash ^ map_hash_bytes(kind->manner.bytes, kind->manner.length));
	sorting->wanted = kind;
	*ret = map_index_find(&sorting->index, hash, same_kind, sorting);
	if (*ret != MAP_NONE)
		return NULL;
	*ret = (uint32_t)sorting->kinds.count;
	TRY(vector_push(&sorting->kinds, *kind));
	return map_index_add(&sorting->index, hash, *ret);
}

struct error *analyze_alike_make(const struct analyze_model *model,
				 const struct analyze_sections *programs, uint32_t **ret)
{
	CLEANUP_FREE uint32_t *kinds = calloc(model->process_count + 1, sizeof(*kinds));
	struct sorting sorting = {0};
	struct error *error = kinds ? NULL : error_no_memory();

	for (size_t i = 0; i < model->process_count && !error; i++) {
		struct kind kind = kind_of(&model->processes[i], programs->of[i]);

		error = find_kind(&sorting, &kind, &kinds[i]);
	}
	vector_free(&sorting.kinds);
	map_index_free(&sorting.index);
	if (!error)
		*ret = STEAL(kinds);
	return error;
}
