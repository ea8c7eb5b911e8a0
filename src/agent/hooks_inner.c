/*
 * What a function that was changed where it stands (inner.h) leads to: one hook for all, which
 * takes from the function's shape what its arguments mean.
 */
#include <errno.h>

#include "agent/account.h"
#include "agent/hook.h"
#include "agent/hooks_new.h"
#include "agent/inner.h"

/* As hooks_inner_entry leaves it on the stack. */
struct call {
	uint64_t rdx; /* to return with */
	uint64_t r11, r10;
	uint64_t argument[5];
	uint64_t r9;
	uint64_t pc;
};

uint64_t hooks_inner(struct call *c, const struct inner *in);

/* A function of the name may be another one than is known: it gets all registers of arguments, and
 * both of the result are kept. */
typedef unsigned __int128 function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static uintptr_t cfa_of(const struct call *c) { return (uintptr_t)(c + 1); }

static uint64_t call(struct call *c, const struct inner *in)
{
	const uint64_t *a = c->argument;
	unsigned __int128 ret = ((function *)in->call)(a[0], a[1], a[2], a[3], a[4], c->r9);

	c->rdx = (uint64_t)(ret >> 64);
	return (uint64_t)ret;
}

/* A product that overflows makes the function fail, whatever it is here. */
static size_t size_of(const struct call *c, const struct inner_shape *shape)
{
	size_t size = c->argument[shape->size];

	if (shape->count != INNER_NO_ARGUMENT &&
	    __builtin_mul_overflow(size, c->argument[shape->count], &size))
		return SIZE_MAX;
	return size;
}

static void leave_out(struct thread *t, const struct call *c)
{
	static const char why[] = "small blocks of libraries opened later";

	hook_phase(t, cfa_of(c), GATE_AGENT);
	if (atomic_load(&t->process->loss_detail[MGL_LOSS_UNRECORDED]))
		agent_count_loss(MGL_LOSS_UNRECORDED, 1);
	else
		agent_name_loss(t, MGL_LOSS_UNRECORDED, why, sizeof(why) - 1);
	hook_leave(t);
}

/* The end of a hook that allocates. */
static void *allocated(struct thread *t, struct call *c, const struct inner *in, void *made)
{
	size_t size = size_of(c, &in->shape);

	if (AGENT_LIKELY(size >= in->least || !made))
		return account_allocated(t, made, size, in->shape.api, c->pc, cfa_of(c));
	leave_out(t, c);
	return made;
}

static uint64_t allocate(struct call *c, const struct inner *in)
{
	struct thread *t = hook_enter(cfa_of(c));
	void *made = (void *)(uintptr_t)call(c, in);

	return (uintptr_t)(AGENT_LIKELY(t != NULL) ? allocated(t, c, in, made)
						   : agent_missed(made));
}

static uint64_t allocate_or_throw(struct call *c, const struct inner *in)
{
	struct thread *t = hook_enter(cfa_of(c));

	if (!t)
		return (uintptr_t)agent_missed((void *)(uintptr_t)call(c, in));
	void *made = hooks_new_call(in->shape.api, in->call, c->argument[0], c->argument[1],
				    c->argument[2]);

	return (uintptr_t)allocated(t, c, in, made);
}

/* The function stored one there, unless it is another one of that name. */
static bool may_hold_pointer(uintptr_t at)
{
	return at >= MGL_PAGE && at < (uintptr_t)1 << 47 && at % sizeof(void *) == 0;
}

static uint64_t store(struct call *c, const struct inner *in)
{
	struct thread *t = hook_enter(cfa_of(c));
	uint64_t err = call(c, in);
	uintptr_t to = c->argument[0];
	void *made = (int)err == 0 && may_hold_pointer(to) ? *(void **)to : NULL;

	if (t)
		allocated(t, c, in, made);
	else
		agent_missed(made);
	return err;
}

/* Where blocks are left out that are small, one that is not known may be such. */
static void take_out(struct thread *t, struct call *c, const struct inner *in, void *block)
{
	if (AGENT_LIKELY(in->least == 0)) {
		account_free(t, block, cfa_of(c));
		return;
	}
	hook_phase(t, cfa_of(c), GATE_AGENT);
	struct taken old = account_realloc_begin(t, block);

	if (old.word)
		account_realloc_freed(t, block, old);
	hook_phase(t, cfa_of(c), GATE_REAL);
}

static uint64_t release(struct call *c, const struct inner *in)
{
	void *block = (void *)(uintptr_t)c->argument[in->shape.block];
	struct thread *t = block ? hook_enter(cfa_of(c)) : NULL;

	if (!t)
		return call(c, in);
	take_out(t, c, in, block);
	uint64_t ret = call(c, in);

	hook_leave(t);
	return ret;
}

/* The real function, between what is noted before it and after it; *failed tells what a NULL of
 * its means. */
static void *reallocate_real(struct thread *t, struct call *c, const struct inner *in, bool *failed)
{
	int before = errno;

	errno = 0;
	hook_phase(t, cfa_of(c), GATE_REAL);
	void *moved = (void *)(uintptr_t)call(c, in);

	hook_phase(t, cfa_of(c), GATE_AGENT);
	*failed = hook_realloc_failed(size_of(c, &in->shape));
	if (errno == 0)
		errno = before;
	return moved;
}

/* The block is moved, or as large as it was to be; the end of the hook. */
static void reallocated(struct thread *t, struct call *c, const struct inner *in, struct taken old,
			void *moved)
{
	void *block = (void *)(uintptr_t)c->argument[in->shape.block];
	size_t size = size_of(c, &in->shape);

	if (AGENT_LIKELY(size >= in->least && (old.word || in->least == 0))) {
		account_realloc_done(t, block, old, moved, size, in->shape.api, c->pc, cfa_of(c));
		hook_leave(t);
		return;
	}
	if (old.word)
		account_realloc_freed(t, block, old);
	hook_phase(t, cfa_of(c), GATE_REAL);
	allocated(t, c, in, moved);
}

static uint64_t reallocate(struct call *c, const struct inner *in)
{
	void *block = (void *)(uintptr_t)c->argument[in->shape.block];
	bool failed;

	if (!block)
		return allocate(c, in);
	struct thread *t = hook_enter(cfa_of(c));

	if (!t)
		return (uintptr_t)agent_missed((void *)(uintptr_t)call(c, in));
	hook_phase(t, cfa_of(c), GATE_AGENT);
	struct taken old = account_realloc_begin(t, block);
	void *moved = reallocate_real(t, c, in, &failed);

	if (moved) {
		reallocated(t, c, in, old, moved);
		return (uintptr_t)moved;
	}
	if (failed && in->shape.kind != INNER_REALLOCATE_OR_FREE) {
		account_realloc_failed(t, block, old, in->shape.api);
	} else {
		if (old.word || in->least == 0)
			account_realloc_freed(t, block, old);
		if (failed)
			account_failed(t, in->shape.api);
	}
	hook_leave(t);
	return 0;
}

static uint64_t resize(struct call *c, const struct inner *in)
{
	void *block = (void *)(uintptr_t)c->argument[in->shape.block];
	size_t size = size_of(c, &in->shape);
	struct thread *t = hook_enter(cfa_of(c));

	if (!t)
		return call(c, in);
	hook_phase(t, cfa_of(c), GATE_AGENT);
	struct taken old = account_realloc_begin(t, block);

	hook_phase(t, cfa_of(c), GATE_REAL);
	uint64_t now = call(c, in);

	hook_phase(t, cfa_of(c), GATE_AGENT);
	if (now >= size) {
		reallocated(t, c, in, old, block);
		return now;
	}
	account_realloc_failed(t, block, old, in->shape.api);
	hook_leave(t);
	return now;
}

static void loaded(struct call *c)
{
	struct thread *t = thread_enter(cfa_of(c));

	if (t) {
		inner_loaded(t);
		thread_leave(t);
	} else {
		inner_missed();
	}
}

uint64_t hooks_inner(struct call *c, const struct inner *in)
{
	switch ((enum inner_kind)in->shape.kind) {
	case INNER_ALLOCATE:
		return allocate(c, in);
	case INNER_NEW:
		return allocate_or_throw(c, in);
	case INNER_STORE:
		return store(c, in);
	case INNER_FREE:
		return release(c, in);
	case INNER_REALLOCATE:
	case INNER_REALLOCATE_OR_FREE:
		return reallocate(c, in);
	case INNER_RESIZE:
		return resize(c, in);
	case INNER_LOADED:
		loaded(c);
		break;
	}
	return call(c, in);
}
