/*
 * Growing arrays of any type:
 *
 *	VECTOR(struct frame) frames = VECTOR_EMPTY;
 *	TRY(vector_push(&frames, frame));
 *	for (size_t i = 0; i < frames.count; i++) use(frames.items[i]);
 *	vector_free(&frames);
 *
 * Owner: whoever declares it. Errors: no memory alone; the vector is unchanged then.
 * Arguments v are evaluated more than once.
 */
#ifndef MALLOGRAPH_BASE_VECTOR_H
#define MALLOGRAPH_BASE_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"

#define VECTOR(type)             \
	struct {                 \
		type *items;     \
		size_t count;    \
		size_t capacity; \
	}
#define VECTOR_EMPTY       \
	{                  \
		NULL, 0, 0 \
	}

#define vector_push(v, value)                                                               \
	({                                                                                  \
		void *vector_room_ = vector_room((v)->items, (v)->count, 1, &(v)->capacity, \
						 sizeof(*(v)->items));                      \
		if (vector_room_) {                                                         \
			(v)->items = vector_room_;                                          \
			(v)->items[(v)->count++] = (value);                                 \
		}                                                                           \
		vector_result(vector_room_);                                                \
	})

/* Room for more items without changing count. */
#define vector_reserve(v, more)                                                                  \
	({                                                                                       \
		void *vector_room_ = vector_room((v)->items, (v)->count, (more), &(v)->capacity, \
						 sizeof(*(v)->items));                           \
		if (vector_room_)                                                                \
			(v)->items = vector_room_;                                               \
		vector_result(vector_room_);                                                     \
	})

#define vector_free(v)                          \
	do {                                    \
		free((v)->items);               \
		(v)->items = NULL;              \
		(v)->count = (v)->capacity = 0; \
	} while (0)

/* The item at a place below count. That there are items then, the analyser cannot know of a
 * place that was found by other means. */
#define vector_at(v, place)                      \
	({                                       \
		if (!(v)->items)                 \
			__builtin_unreachable(); \
		&(v)->items[(place)];            \
	})

static inline void *vector_room(void *items, size_t count, size_t more, size_t *capacity,
				size_t item_bytes)
{
	size_t wanted;

	if (__builtin_add_overflow(count, more, &wanted) || wanted > SIZE_MAX / 2 / item_bytes)
		return NULL;
	if (items && wanted <= *capacity)
		return items;

	size_t grown = *capacity + *capacity / 2 + 8;

	if (grown < wanted)
		grown = wanted;
	void *room = realloc(items, grown * item_bytes);

	if (room)
		*capacity = grown;
	return room;
}

ERROR_MUST_CHECK static inline struct error *vector_result(const void *room)
{
	return room ? NULL : error_no_memory();
}

#endif
