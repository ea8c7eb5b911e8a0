/*
 * Hash maps. Both own their table alone, never what it names; map_*_free() ends one, all
 * zeros is an empty one. Errors: no memory, or more than 2^32 − 2 items.
 *
 * struct map_index finds items of an array the caller keeps: it holds their positions
 * by hash and asks the caller which one is meant. Nothing can be removed from it.
 *
 *	uint32_t at = map_index_find(&index, hash, same, context);   // MAP_NONE = not there
 *	if (at == MAP_NONE) TRY(map_index_add(&index, hash, array.count - 1));
 *
 * struct map_u64 maps integers to integers.
 */
#ifndef MALLOGRAPH_BASE_MAP_H
#define MALLOGRAPH_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define MAP_NONE UINT32_MAX

struct map_index_entry {
	uint32_t hash;
	uint32_t item; /* position + 1; 0 = free */
};

struct map_index {
	struct map_index_entry *entries;
	size_t mask; /* entries − 1 */
	size_t count;
};

/* Whether the array's item at position is the one context describes. */
typedef bool map_same(void *context, uint32_t position);

uint32_t map_index_find(const struct map_index *index, uint64_t hash, map_same *same,
			void *context);
/* The item must not be in the index. */
struct error *map_index_add(struct map_index *index, uint64_t hash,
			    uint32_t position) ERROR_MUST_CHECK;
void map_index_free(struct map_index *index);

struct map_u64_entry {
	uint64_t key;
	uint64_t value;
	bool used;
};

struct map_u64 {
	struct map_u64_entry *entries;
	size_t mask;
	size_t count;
};

/* Where the value stands until the next map_u64_set(); NULL = not there. */
uint64_t *map_u64_find(const struct map_u64 *map, uint64_t key);
struct error *map_u64_set(struct map_u64 *map, uint64_t key, uint64_t value) ERROR_MUST_CHECK;
void map_u64_free(struct map_u64 *map);

/* Spread an integer's bits; chain to hash several: map_hash(a ^ map_hash(b)). */
static inline uint64_t map_hash(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint64_t map_hash_bytes(const void *bytes, size_t count);

#endif
