#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#define MIN_ENTRIES 16u

/* Tables stay at most two thirds full. */
static bool is_full(size_t count, size_t mask) { return (count + 1) * 3 > (mask + 1) * 2; }

static void place(struct map_index_entry *entries, size_t mask, struct map_index_entry entry)
{
	size_t at = entry.hash & mask;

	while (entries[at].item)
		at = (at + 1) & mask;
	entries[at] = entry;
}

uint32_t map_index_find(const struct map_index *index, uint64_t hash, map_same *same, void *context)
{
	if (!index->entries)
		return MAP_NONE;
	for (size_t at = (uint32_t)hash & index->mask; index->entries[at].item;
	     at = (at + 1) & index->mask) {
		const struct map_index_entry *entry = &index->entries[at];

		if (entry->hash == (uint32_t)hash && same(context, entry->item - 1))
			return entry->item - 1;
	}
	return MAP_NONE;
}

/* false = no memory. */
static bool grow_index(struct map_index *index)
{
	size_t size = index->entries ? (index->mask + 1) * 2 : MIN_ENTRIES;
	struct map_index_entry *entries = calloc(size, sizeof(*entries));

	if (!entries)
		return false;
	for (size_t i = 0; index->entries && i <= index->mask; i++)
		if (index->entries[i].item)
			place(entries, size - 1, index->entries[i]);
	free(index->entries);
	index->entries = entries;
	index->mask = size - 1;
	return true;
}

struct error *map_index_add(struct map_index *index, uint64_t hash, uint32_t position)
{
	if (position == MAP_NONE)
		return error_no_memory();
	if (!index->entries || is_full(index->count, index->mask)) {
		if (!grow_index(index))
			return error_no_memory();
	}
	place(index->entries, index->mask,
	      (struct map_index_entry){.hash = (uint32_t)hash, .item = position + 1});
	index->count++;
	return NULL;
}

void map_index_free(struct map_index *index)
{
	free(index->entries);
	*index = (struct map_index){0};
}

static struct map_u64_entry *slot_of(struct map_u64_entry *entries, size_t mask, uint64_t key)
{
	size_t at = (size_t)map_hash(key) & mask;

	while (entries[at].used && entries[at].key != key)
		at = (at + 1) & mask;
	return &entries[at];
}

uint64_t *map_u64_find(const struct map_u64 *map, uint64_t key)
{
	if (!map->entries)
		return NULL;
	struct map_u64_entry *entry = slot_of(map->entries, map->mask, key);

	return entry->used ? &entry->value : NULL;
}

/* false = no memory. */
static bool grow_u64(struct map_u64 *map)
{
	size_t size = map->entries ? (map->mask + 1) * 2 : MIN_ENTRIES;
	struct map_u64_entry *entries = calloc(size, sizeof(*entries));

	if (!entries)
		return false;
	for (size_t i = 0; map->entries && i <= map->mask; i++)
		if (map->entries[i].used)
			*slot_of(entries, size - 1, map->entries[i].key) = map->entries[i];
	free(map->entries);
	map->entries = entries;
	map->mask = size - 1;
	return true;
}

struct error *map_u64_set(struct map_u64 *map, uint64_t key, uint64_t value)
{
	if (!map->entries || is_full(map->count, map->mask)) {
		if (!grow_u64(map))
			return error_no_memory();
	}
	struct map_u64_entry *entry = slot_of(map->entries, map->mask, key);

	if (!entry->used)
		map->count++;
	*entry = (struct map_u64_entry){.key = key, .value = value, .used = true};
	return NULL;
}

void map_u64_free(struct map_u64 *map)
{
	free(map->entries);
	*map = (struct map_u64){0};
}

uint64_t map_hash_bytes(const void *bytes, size_t count)
{
	const uint8_t *p = bytes;
	uint64_t hash = map_hash(count);

	while (count >= 8) {
		uint64_t word;

		memcpy(&word, p, 8);
		hash = map_hash(hash ^ word);
		p += 8;
		count -= 8;
	}
	uint64_t tail = 0;

	for (size_t i = 0; i < count; i++)
		tail |= (uint64_t)p[i] << (8 * i);
	return map_hash(hash ^ tail);
}
