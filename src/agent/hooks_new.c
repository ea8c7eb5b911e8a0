/*
 * operator new and delete.
 *
 * The C++ library's own go through malloc and are left to it: a jump, nothing else. One
 * that another library defines (jemalloc, tcmalloc, a plugin's own) may not, so it is
 * recorded here, and what it calls is its own business.
 *
 * Which definition a call means is settled at the start where a module loaded then has
 * one. In a program without (python) each extension brings its own, private to it: there
 * it depends on the caller, and is remembered by return address.
 *
 * A throwing new leaves through our frame. Its unwind data names a personality of ours,
 * which, when the frame is unwound, does what the hook would have done after a failure.
 */
#include <errno.h>

#include "agent/account.h"
#include "agent/hook.h"
#include "agent/hooks_new.h"
#include "agent/real.h"
#include "agent/scope.h"

#define X(name, type, parameters) type name parameters;
REAL_NEW(X)
REAL_DELETE(X)
#undef X

enum form {
#define X(name, type, parameters) FORM##name,
	REAL_NEW(X) REAL_DELETE(X)
#undef X
		FORM_COUNT
};

static const char *const form_names[FORM_COUNT] = {
#define X(name, type, parameters) #name,
	REAL_NEW(X) REAL_DELETE(X)
#undef X
};

struct route {
	void *function;
	bool records;
};

/* --- routes that depend on the caller ------------------------------------------- */

#define ROUTES_LOG2   10u
#define KEY_FORM_BITS 5u
#define KEY_CALL_BITS (47u + KEY_FORM_BITS)
#define VALUE_RECORDS (UINT64_C(1) << 63)

_Static_assert(FORM_COUNT <= 1 << KEY_FORM_BITS, "a form fits its key");

/* key: generation | return address | form. A value belongs to the key stored around it. */
static struct {
	_Atomic uint64_t key;
	_Atomic uint64_t value; /* function | VALUE_RECORDS */
} routes[1u << ROUTES_LOG2];

static _Atomic bool routes_busy; /* one writer at a time, who else would does not write */
static _Atomic uint64_t routes_generation;

void hooks_new_forget(void) { atomic_fetch_add(&routes_generation, 1); }

/* Stand-ins for what nobody defines: only a program that tests a weak symbol gets here. */
static void *new_nothing(void)
{
	errno = ENOMEM;
	return NULL;
}

static void delete_nothing(void) {}

static uint32_t place(uint64_t key)
{
	return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - ROUTES_LOG2));
}

static AGENT_COLD struct route route_find(enum form form, uintptr_t pc, uint64_t key)
{
	struct scope_definition found;
	struct route r = {form < FORM_ZdlPv ? (void *)new_nothing : (void *)delete_nothing, false};
	uint32_t i = place(key);

	if (!real_resolve() || !scope_find(form_names[form], pc, &found))
		return r;
	r = (struct route){found.function, !real_is_cpp_library(found.map)};
	if (atomic_exchange(&routes_busy, true))
		return r;
	atomic_store(&routes[i].key, 0);
	atomic_store(&routes[i].value, (uintptr_t)r.function | (r.records ? VALUE_RECORDS : 0));
	atomic_store(&routes[i].key, key);
	atomic_store(&routes_busy, false);
	return r;
}

static __attribute__((noinline)) struct route route_late(enum form form, uintptr_t pc)
{
	uint64_t generation = atomic_load_explicit(&routes_generation, memory_order_acquire);
	uint64_t key = generation << KEY_CALL_BITS | (uint64_t)pc << KEY_FORM_BITS | form;
	uint32_t i = place(key);
	uint64_t value;

	if (atomic_load_explicit(&routes[i].key, memory_order_acquire) == key) {
		value = atomic_load_explicit(&routes[i].value, memory_order_acquire);
		if (atomic_load_explicit(&routes[i].key, memory_order_relaxed) == key)
			return (struct route){(void *)(uintptr_t)(value & ~VALUE_RECORDS),
					      value & VALUE_RECORDS};
	}
	return route_find(form, pc, key);
}

#define ROUTE(name)                                                          \
	(AGENT_LIKELY(real.name != NULL)                                     \
		 ? (struct route){(void *)real.name, real_facts.library_new} \
		 : route_late(FORM##name, PC))

/* --- a real function that throws ------------------------------------------------------ */

#define UNWIND_CLEANUP  2 /* the second phase: frames are being left */
#define UNWIND_CONTINUE 8

/* The thread, or the handler in it, whose hook is in the function that throws. */
static struct thread *thrower(void)
{
	struct thread *found = NULL;

	for (struct thread *t = agent_thread; t; t = t->nested) {
		if (atomic_load_explicit(gate_of(t), memory_order_relaxed) & GATE_REAL)
			found = t;
	}
	return found;
}

static int leave_by_throw(int actions, enum mgl_api api)
{
	struct thread *t = actions & UNWIND_CLEANUP ? thrower() : NULL;

	if (t) {
		thread_real_end(t);
		account_failed(t, api);
		hook_leave(t);
	}
	return UNWIND_CONTINUE;
}

/* Calls the real function from a frame with a personality; the one of a function called
 * with the arguments it does not take ignores them. */
#define GUARDED_CALL(suffix, api)                                                             \
	static __attribute__((used)) int personality_##suffix(                                \
		int version, int actions, uint64_t class, void *exception, void *context)     \
	{                                                                                     \
		(void)version;                                                                \
		(void)class;                                                                  \
		(void)exception;                                                              \
		(void)context;                                                                \
		return leave_by_throw(actions, api);                                          \
	}                                                                                     \
                                                                                              \
	static __attribute__((noipa)) void *call_##suffix(void *function, size_t a, size_t b, \
							  size_t c)                           \
	{                                                                                     \
		void *ret;                                                                    \
                                                                                              \
		__asm__ volatile(".cfi_personality 0x1b, personality_" #suffix);              \
		ret = ((void *(*)(size_t, size_t, size_t))function)(a, b, c);                 \
		__asm__ volatile("" : "+r"(ret)); /* no jump: the frame is the point */       \
		return ret;                                                                   \
	}

GUARDED_CALL(new, MGL_API_NEW)
GUARDED_CALL(new_array, MGL_API_NEW_ARRAY)
GUARDED_CALL(aligned_new, MGL_API_ALIGNED_NEW)
GUARDED_CALL(aligned_new_array, MGL_API_ALIGNED_NEW_ARRAY)

/* --- the hooks ---------------------------------------------------------------------- */

#define NEW(name, suffix, api, a, b, c)                                                  \
	do {                                                                             \
		struct route r = ROUTE(name);                                            \
		struct thread *t;                                                        \
		void *made;                                                              \
                                                                                         \
		if (AGENT_LIKELY(!r.records) || !(t = hook_enter(CFA)))                  \
			return ((void *(*)(size_t, size_t, size_t))r.function)(a, b, c); \
		made = call_##suffix(r.function, a, b, c);                               \
		hook_phase(t, CFA, GATE_AGENT);                                          \
		if (AGENT_LIKELY(made != NULL)) {                                        \
			REGS(regs);                                                      \
			account_allocated(t, made, a, api, &regs);                       \
		} else {                                                                 \
			account_failed(t, api);                                          \
		}                                                                        \
		hook_leave(t);                                                           \
		return made;                                                             \
	} while (0)

AGENT_EXPORT void *_Znwm(size_t size) { NEW(_Znwm, new, MGL_API_NEW, size, 0, 0); }

AGENT_EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
	NEW(_ZnwmRKSt9nothrow_t, new, MGL_API_NEW, size, (size_t)tag, 0);
}

AGENT_EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t alignment)
{
	NEW(_ZnwmSt11align_val_t, aligned_new, MGL_API_ALIGNED_NEW, size, alignment, 0);
}

AGENT_EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment,
						      const void *tag)
{
	NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, aligned_new, MGL_API_ALIGNED_NEW, size, alignment,
	    (size_t)tag);
}

AGENT_EXPORT void *_Znam(size_t size) { NEW(_Znam, new_array, MGL_API_NEW_ARRAY, size, 0, 0); }

AGENT_EXPORT void *_ZnamRKSt9nothrow_t(size_t size, const void *tag)
{
	NEW(_ZnamRKSt9nothrow_t, new_array, MGL_API_NEW_ARRAY, size, (size_t)tag, 0);
}

AGENT_EXPORT void *_ZnamSt11align_val_t(size_t size, size_t alignment)
{
	NEW(_ZnamSt11align_val_t, aligned_new_array, MGL_API_ALIGNED_NEW_ARRAY, size, alignment, 0);
}

AGENT_EXPORT void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment,
						      const void *tag)
{
	NEW(_ZnamSt11align_val_tRKSt9nothrow_t, aligned_new_array, MGL_API_ALIGNED_NEW_ARRAY, size,
	    alignment, (size_t)tag);
}

#define DELETE(name, block, b, c)                                                     \
	do {                                                                          \
		struct route r = ROUTE(name);                                         \
		void (*call)(void *, size_t, size_t) =                                \
			(void (*)(void *, size_t, size_t))r.function;                 \
		struct thread *t;                                                     \
                                                                                      \
		if (AGENT_LIKELY(!r.records) || !(block) || !(t = hook_enter(CFA))) { \
			call(block, b, c);                                            \
			return;                                                       \
		}                                                                     \
		hook_phase(t, CFA, GATE_AGENT);                                       \
		account_free(t, block);                                               \
		hook_phase(t, CFA, GATE_REAL);                                        \
		call(block, b, c);                                                    \
		hook_leave(t);                                                        \
	} while (0)

AGENT_EXPORT void _ZdlPv(void *block) { DELETE(_ZdlPv, block, 0, 0); }

AGENT_EXPORT void _ZdlPvm(void *block, size_t size) { DELETE(_ZdlPvm, block, size, 0); }

AGENT_EXPORT void _ZdlPvRKSt9nothrow_t(void *block, const void *tag)
{
	DELETE(_ZdlPvRKSt9nothrow_t, block, (size_t)tag, 0);
}

AGENT_EXPORT void _ZdlPvSt11align_val_t(void *block, size_t alignment)
{
	DELETE(_ZdlPvSt11align_val_t, block, alignment, 0);
}

AGENT_EXPORT void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t alignment)
{
	DELETE(_ZdlPvmSt11align_val_t, block, size, alignment);
}

AGENT_EXPORT void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment,
						      const void *tag)
{
	DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, block, alignment, (size_t)tag);
}

AGENT_EXPORT void _ZdaPv(void *block) { DELETE(_ZdaPv, block, 0, 0); }

AGENT_EXPORT void _ZdaPvm(void *block, size_t size) { DELETE(_ZdaPvm, block, size, 0); }

AGENT_EXPORT void _ZdaPvRKSt9nothrow_t(void *block, const void *tag)
{
	DELETE(_ZdaPvRKSt9nothrow_t, block, (size_t)tag, 0);
}

AGENT_EXPORT void _ZdaPvSt11align_val_t(void *block, size_t alignment)
{
	DELETE(_ZdaPvSt11align_val_t, block, alignment, 0);
}

AGENT_EXPORT void _ZdaPvmSt11align_val_t(void *block, size_t size, size_t alignment)
{
	DELETE(_ZdaPvmSt11align_val_t, block, size, alignment);
}

AGENT_EXPORT void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment,
						      const void *tag)
{
	DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, block, alignment, (size_t)tag);
}
