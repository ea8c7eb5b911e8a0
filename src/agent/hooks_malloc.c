/*
 * The C allocation functions, as the program calls them.
 *
 * Each calls the function that would have been called without us, and then says what
 * happened; free and realloc say first what the program gives up.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "agent/account.h"
#include "agent/hook.h"
#include "agent/real.h"

/* Not in every glibc's headers: C23, and one that was taken out. */
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);
void cfree(void *block);

/* The body of a function that returns a block of size bytes or NULL. */
#define ALLOCATION(call, size, api)                                        \
	do {                                                               \
		struct thread *t = hook_enter(CFA);                        \
		void *made = (call);                                       \
                                                                           \
		if (AGENT_UNLIKELY(!t))                                    \
			return agent_missed(made);                         \
		return account_allocated(t, made, (size), (api), PC, CFA); \
	} while (0)

AGENT_EXPORT void *malloc(size_t size) { ALLOCATION(real.malloc(size), size, MGL_API_MALLOC); }

AGENT_EXPORT void *calloc(size_t count, size_t size)
{
	ALLOCATION(real.calloc(count, size), count * size, MGL_API_CALLOC);
}

AGENT_EXPORT void *memalign(size_t alignment, size_t size)
{
	ALLOCATION(real.memalign(alignment, size), size, MGL_API_MEMALIGN);
}

AGENT_EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	ALLOCATION(real.aligned_alloc(alignment, size), size, MGL_API_ALIGNED_ALLOC);
}

AGENT_EXPORT void *valloc(size_t size) { ALLOCATION(real.valloc(size), size, MGL_API_VALLOC); }

AGENT_EXPORT void *pvalloc(size_t size) { ALLOCATION(real.pvalloc(size), size, MGL_API_PVALLOC); }

AGENT_EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
	struct thread *t = hook_enter(CFA);
	int err = real.posix_memalign(out, alignment, size);

	if (AGENT_UNLIKELY(!t)) {
		agent_missed(err == 0 ? *out : NULL);
		return err;
	}
	account_allocated(t, err == 0 ? *out : NULL, size, MGL_API_POSIX_MEMALIGN, PC, CFA);
	return err;
}

/* --- free --------------------------------------------------------------------------- */

#define RELEASE(block, call)                        \
	do {                                        \
		if (!(block))                       \
			return;                     \
		struct thread *t = hook_enter(CFA); \
                                                    \
		if (AGENT_UNLIKELY(!t)) {           \
			(call);                     \
			return;                     \
		}                                   \
		account_free(t, (block), CFA);      \
		(call);                             \
		hook_leave(t);                      \
	} while (0)

AGENT_EXPORT void free(void *block) { RELEASE(block, real.free(block)); }

AGENT_EXPORT void cfree(void *block) { RELEASE(block, real.cfree(block)); }

AGENT_EXPORT void free_sized(void *block, size_t size)
{
	RELEASE(block, real.free_sized(block, size));
}

AGENT_EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
	RELEASE(block, real.free_aligned_sized(block, alignment, size));
}

/* --- realloc ------------------------------------------------------------------------ */

#define REALLOCATION(block, size, call, api)                                                  \
	do {                                                                                  \
		struct thread *t = hook_enter(CFA);                                           \
                                                                                              \
		if (AGENT_UNLIKELY(!t))                                                       \
			return agent_missed(call);                                            \
		hook_phase(t, CFA, GATE_AGENT);                                               \
		struct taken old = account_realloc_begin(t, (block));                         \
		int before = errno;                                                           \
                                                                                              \
		errno = 0;                                                                    \
		hook_phase(t, CFA, GATE_REAL);                                                \
		void *moved = (call);                                                         \
                                                                                              \
		hook_phase(t, CFA, GATE_AGENT);                                               \
		bool failed = !moved && hook_realloc_failed(size);                            \
                                                                                              \
		if (errno == 0)                                                               \
			errno = before;                                                       \
		if (AGENT_LIKELY(moved != NULL)) {                                            \
			account_realloc_done(t, (block), old, moved, (size), (api), PC, CFA); \
		} else if (failed) {                                                          \
			account_realloc_failed(t, (block), old, (api));                       \
		} else {                                                                      \
			account_realloc_freed(t, (block), old);                               \
		}                                                                             \
		hook_leave(t);                                                                \
		return moved;                                                                 \
	} while (0)

AGENT_EXPORT void *realloc(void *block, size_t size)
{
	if (!block)
		ALLOCATION(real.realloc(NULL, size), size, MGL_API_REALLOC);
	REALLOCATION(block, size, real.realloc(block, size), MGL_API_REALLOC);
}

/* A product that overflows makes the real function fail whatever the product is here. */
AGENT_EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
	size_t bytes = count * size;

	if (size && bytes / size != count)
		bytes = SIZE_MAX;
	if (!block)
		ALLOCATION(real.reallocarray(NULL, count, size), bytes, MGL_API_REALLOCARRAY);
	REALLOCATION(block, bytes, real.reallocarray(block, count, size), MGL_API_REALLOCARRAY);
}
