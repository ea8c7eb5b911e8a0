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

/* --- a real function that throws ------------------------------------------------------ */

#define UNWIND_CLEANUP  2 /* the second phase: frames are being left */
#define UNWIND_CONTINUE 8

/* The thread, or the handler in it, whose hook is in the function that throws. */
static struct thread *thrower(void)
{
	struct thread *found = NULL;

	for (struct thread *t = thread_own(); t; t = t->nested) {
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

void *hooks_new_call(enum mgl_api api, void *function, size_t a, size_t b, size_t c)
{
	switch (api) {
	case MGL_API_NEW_ARRAY:
		return call_new_array(function, a, b, c);
	case MGL_API_ALIGNED_NEW:
		return call_aligned_new(function, a, b, c);
	case MGL_API_ALIGNED_NEW_ARRAY:
		return call_aligned_new_array(function, a, b, c);
	default:
		return call_new(function, a, b, c);
	}
}

/* --- what is not the C++ library's own ------------------------------------------------ */

typedef void *new_function(size_t, size_t, size_t);
typedef void delete_function(void *, size_t, size_t);

struct kind {
	void **settled; /* in real */
	enum form form;
	enum mgl_api api;
	void *(*call)(void *function, size_t a, size_t b, size_t c);
};

static struct route route_of(const struct kind *kind, uintptr_t pc)
{
	if (*kind->settled)
		return (struct route){*kind->settled, real_facts.library_new};
	return route_late(kind->form, pc);
}

/* Jumped to from a hook, whose frame this one is: pc and cfa are the hook's. */
static __attribute__((noinline)) void *
new_slow(size_t size, size_t b, size_t c, const struct kind *kind, uintptr_t pc, uintptr_t cfa)
{
	struct route r = route_of(kind, pc);
	struct thread *t = r.records ? hook_enter(cfa) : NULL;
	void *made;

	if (!t) {
		made = ((new_function *)r.function)(size, b, c);
		return r.records ? agent_missed(made) : made;
	}
	made = kind->call(r.function, size, b, c);
	return account_allocated(t, made, size, kind->api, pc, cfa);
}

static __attribute__((noinline)) void
delete_slow(void *block, size_t b, size_t c, const struct kind *kind, uintptr_t pc, uintptr_t cfa)
{
	struct route r = route_of(kind, pc);
	struct thread *t = r.records && block ? hook_enter(cfa) : NULL;

	if (t)
		account_free(t, block, cfa);
	((delete_function *)r.function)(block, b, c);
	if (t)
		hook_leave(t);
}

/* --- the hooks ------------------------------------------------------------------------ */

/* The C++ library's own, settled at the start: nothing to do but jump. */
#define IS_PLAIN(name) AGENT_LIKELY(real.name && !real_facts.library_new)

#define NEW(name, suffix, api, arguments, a, b, c)                                     \
	do {                                                                           \
		static const struct kind kind = {(void **)&real.name, FORM##name, api, \
						 call_##suffix};                       \
                                                                                       \
		if (IS_PLAIN(name))                                                    \
			return real.name arguments;                                    \
		return new_slow(a, b, c, &kind, PC, CFA);                              \
	} while (0)

#define DELETE(name, arguments, block, b, c)                                                    \
	do {                                                                                    \
		static const struct kind kind = {(void **)&real.name, FORM##name, MGL_API_NONE, \
						 NULL};                                         \
                                                                                                \
		if (IS_PLAIN(name))                                                             \
			real.name arguments;                                                    \
		else                                                                            \
			delete_slow(block, b, c, &kind, PC, CFA);                               \
	} while (0)

AGENT_EXPORT void *_Znwm(size_t size) { NEW(_Znwm, new, MGL_API_NEW, (size), size, 0, 0); }

AGENT_EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
	NEW(_ZnwmRKSt9nothrow_t, new, MGL_API_NEW, (size, tag), size, (size_t)tag, 0);
}

AGENT_EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t alignment)
{
	NEW(_ZnwmSt11align_val_t, aligned_new, MGL_API_ALIGNED_NEW, (size, alignment), size,
	    alignment, 0);
}

AGENT_EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment,
						      const void *tag)
{
	NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, aligned_new, MGL_API_ALIGNED_NEW,
	    (size, alignment, tag), size, alignment, (size_t)tag);
}

AGENT_EXPORT void *_Znam(size_t size)
{
	NEW(_Znam, new_array, MGL_API_NEW_ARRAY, (size), size, 0, 0);
}

AGENT_EXPORT void *_ZnamRKSt9nothrow_t(size_t size, const void *tag)
{
	NEW(_ZnamRKSt9nothrow_t, new_array, MGL_API_NEW_ARRAY, (size, tag), size, (size_t)tag, 0);
}

AGENT_EXPORT void *_ZnamSt11align_val_t(size_t size, size_t alignment)
{
	NEW(_ZnamSt11align_val_t, aligned_new_array, MGL_API_ALIGNED_NEW_ARRAY, (size, alignment),
	    size, alignment, 0);
}

AGENT_EXPORT void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment,
						      const void *tag)
{
	NEW(_ZnamSt11align_val_tRKSt9nothrow_t, aligned_new_array, MGL_API_ALIGNED_NEW_ARRAY,
	    (size, alignment, tag), size, alignment, (size_t)tag);
}

AGENT_EXPORT void _ZdlPv(void *block) { DELETE(_ZdlPv, (block), block, 0, 0); }

AGENT_EXPORT void _ZdlPvm(void *block, size_t size)
{
	DELETE(_ZdlPvm, (block, size), block, size, 0);
}

AGENT_EXPORT void _ZdlPvRKSt9nothrow_t(void *block, const void *tag)
{
	DELETE(_ZdlPvRKSt9nothrow_t, (block, tag), block, (size_t)tag, 0);
}

AGENT_EXPORT void _ZdlPvSt11align_val_t(void *block, size_t alignment)
{
	DELETE(_ZdlPvSt11align_val_t, (block, alignment), block, alignment, 0);
}

AGENT_EXPORT void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t alignment)
{
	DELETE(_ZdlPvmSt11align_val_t, (block, size, alignment), block, size, alignment);
}

AGENT_EXPORT void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment,
						      const void *tag)
{
	DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (block, alignment, tag), block, alignment,
	       (size_t)tag);
}

AGENT_EXPORT void _ZdaPv(void *block) { DELETE(_ZdaPv, (block), block, 0, 0); }

AGENT_EXPORT void _ZdaPvm(void *block, size_t size)
{
	DELETE(_ZdaPvm, (block, size), block, size, 0);
}

AGENT_EXPORT void _ZdaPvRKSt9nothrow_t(void *block, const void *tag)
{
	DELETE(_ZdaPvRKSt9nothrow_t, (block, tag), block, (size_t)tag, 0);
}

AGENT_EXPORT void _ZdaPvSt11align_val_t(void *block, size_t alignment)
{
	DELETE(_ZdaPvSt11align_val_t, (block, alignment), block, alignment, 0);
}

AGENT_EXPORT void _ZdaPvmSt11align_val_t(void *block, size_t size, size_t alignment)
{
	DELETE(_ZdaPvmSt11align_val_t, (block, size, alignment), block, size, alignment);
}

AGENT_EXPORT void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment,
						      const void *tag)
{
	DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (block, alignment, tag), block, alignment,
	       (size_t)tag);
}
