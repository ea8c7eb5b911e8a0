/*
 * The trie's index, over records of the test's own: every (parent, frame) has one node, and
 * that is it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "agent/core.h"

#define RECORDS 400000u

bool agent_frozen, agent_starting;
static struct mgl_node *records;
static uint32_t used;
static uint8_t *units[8];
static struct agent agent;
static struct {
	char gates[GATE_DISTANCE];
	_Alignas(64) struct thread thread;
} place;
static bool full;

void *private_pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void *private_alloc(size_t bytes) { return private_pages(bytes); }

void thread_leave_parent(void) { fail(); }

void *record_alloc(struct thread *t, size_t bytes, uint32_t *ref)
{
	(void)t;
	assert_int_equal(bytes, sizeof(*records));
	if (full)
		return NULL;
	assert_true(used < RECORDS);
	*ref = used++;
	return &records[*ref];
}

static int setup(void **state)
{
	(void)state;
	if (records)
		munmap(records, RECORDS * sizeof(*records));
	records = private_pages(RECORDS * sizeof(*records));
	used = 1;
	full = false;
	for (uint32_t i = 0; i < 4; i++)
		units[i] = (uint8_t *)(records + ((size_t)i << MGL_REF_UNIT_SHIFT));
	memset(&agent, 0, sizeof(agent));
	place.thread.agent = &agent;
	atomic_store(gate_own(&place.thread), 1);
	place.thread.units = units;
	return trie_start(&agent) ? 0 : -1;
}

static uint32_t child(uint32_t parent, uint64_t pc, uint32_t where)
{
	uint32_t ref = trie_child(&place.thread, parent, pc, where);

	assert_true(ref > 0 && ref < used);
	assert_int_equal(records[ref].parent, parent);
	assert_int_equal(records[ref].pc, pc);
	assert_int_equal(records[ref].where, where);
	return ref;
}

static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Stacks that share their outer frames, entered three times in orders of chance, with other
 * records between. */
static void test_one_node_each(void **state)
{
	enum { STACKS = 20000 };
	static uint32_t leaf[STACKS];

	(void)state;
	for (uint32_t i = 0; i < 3 * STACKS; i++) {
		uint32_t stack = i < STACKS ? i : (uint32_t)(random_next() % STACKS), node = 0;

		for (uint32_t level = 0; level < 8; level++)
			node = child(node, 0x400000 + (stack * 2654435761u >> (28 - level * 4)), 7);
		if (i < STACKS)
			leaf[stack] = node;
		if (i % 5 == 0)
			used += i % 7;
		if (leaf[stack])
			assert_int_equal(node, leaf[stack]);
	}
	assert_true(agent.trie->mask > 65536);
}

static void test_many_children(void **state)
{
	static uint32_t of[2][3000];
	uint32_t parents[2] = {child(0, 1, 1), child(0, 2, 1)};

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (uint64_t i = 0; i < 3000; i++) {
			for (int p = 0; p < 2; p++) {
				uint32_t ref = child(parents[p], 0x1000 + i, 1);

				if (round)
					assert_int_equal(ref, of[p][i]);
				of[p][i] = ref;
			}
		}
	}
}

/* The record after a node can be anything, and on its next page it is not looked at. */
static void test_next_record(void **state)
{
	uint32_t parent = child(0, 5, 1);

	(void)state;
	assert_int_equal(child(parent, 6, 1), parent + 1);
	assert_int_equal(child(parent, 6, 1), parent + 1);
	assert_int_not_equal(child(parent, 6, 2), parent + 1);
	assert_int_not_equal(child(parent, 7, 1), parent + 1);
	assert_int_not_equal(child(0, 6, 1), parent + 1);
	used = 255;
	parent = child(0, 8, 1);
	assert_int_equal(parent, 255);
	mprotect(records + 256, 4096, PROT_NONE);
	used = 512;
	assert_int_equal(child(parent, 9, 1), 512);
	mprotect(records + 256, 4096, PROT_READ | PROT_WRITE);
}

static void test_no_room(void **state)
{
	uint32_t parent = child(0, 5, 1);

	(void)state;
	full = true;
	assert_int_equal(trie_child(&place.thread, parent, 6, 1), 0);
	assert_int_equal(child(0, 5, 1), parent);
	full = false;
	child(parent, 6, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_one_node_each, setup),
		cmocka_unit_test_setup(test_many_children, setup),
		cmocka_unit_test_setup(test_next_record, setup),
		cmocka_unit_test_setup(test_no_room, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
