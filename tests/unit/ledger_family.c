/* Who came from whom, and whose end a wait tells, by ledgers that no agent wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger/family.h"
#include "ledger_writer.h"

/* What a session says, read. */
struct read {
	struct ledger_reader *reader;
	struct ledger_family family;
};

static void read_begin(struct writer *writer, struct read *ret)
{
	assert_null(ledger_reader_open_fd(writer->fd, "test", &ret->reader));
	assert_null(ledger_family_read(ret->reader, NULL, 0, &ret->family));
}

static void read_end(struct read *read, struct writer *writer)
{
	ledger_family_free(&read->family);
	ledger_reader_close(read->reader);
	writer_end(writer);
}

/* A process that began so many ms after the session. */
static struct writer_process *begin(struct writer *writer, enum mgl_how how, uint32_t parent,
				    int32_t pid, int32_t ppid, uint64_t ms)
{
	struct writer_process *p = writer_process(writer, how, pid, ppid, "/bin/x");

	p->header->parent = parent;
	p->header->starttime = 0;
	p->header->start_ns = writer->session->start_ns + ms * 1000000;
	return p;
}

static struct mgl_wait *note(struct writer_process *p, int32_t pid, uint32_t status, uint64_t ms)
{
	uint32_t ref = p->header->waits;
	uint64_t start = p->writer->session->start_ns;
	struct mgl_waits *page = NULL;

	if (ref) {
		page = (struct mgl_waits *)(p->base + ((uint64_t)(ref - p->ref) * MGL_REF_BYTES));
	} else {
		page = writer_record(p, sizeof(*page), &ref);
		p->header->waits = ref;
	}
	struct mgl_wait *wait = &page->waits[page->used++];

	wait->pid = pid;
	wait->status = status;
	wait->ns = start + ms * 1000000;
	return wait;
}

static void assert_end(const struct read *read, size_t place, enum ledger_end end, uint64_t code)
{
	assert_int_equal(read->family.members[place].end, end);
	assert_true(read->family.members[place].end_code == code);
}

static void test_a_pid_used_again(void **state)
{
	struct writer writer;
	struct read read;

	(void)state;
	writer_begin(&writer, 16);
	struct writer_process *root = begin(&writer, MGL_HOW_ROOT, 0, 10, 1, 0);

	begin(&writer, MGL_HOW_FORK, 1, 11, 10, 10);
	begin(&writer, MGL_HOW_SPAWN, 1, 11, 10, 30);
	begin(&writer, MGL_HOW_EXEC, 3, 11, 10, 31);
	begin(&writer, MGL_HOW_VFORK, 1, 11, 10, 50);
	note(root, 11, 1 << 8, 20);
	note(root, 11, 9, 40);
	note(root, 11, 0, 45); /* of one that was not recorded */
	note(root, 12, 5, 46);
	read_begin(&writer, &read);
	assert_end(&read, 1, LEDGER_END_EXIT, 1);
	assert_int_equal(read.family.members[1].duration_ns, 10000000);
	assert_int_equal(read.family.members[1].how, LEDGER_HOW_FORK);
	assert_end(&read, 2, LEDGER_END_EXEC, LEDGER_UNKNOWN);
	assert_int_equal(read.family.members[2].how, LEDGER_HOW_SPAWN);
	assert_end(&read, 3, LEDGER_END_SIGNAL, 9);
	assert_int_equal(read.family.members[3].how, LEDGER_HOW_EXEC);
	assert_int_equal(read.family.members[3].parent, 3);
	assert_end(&read, 4, LEDGER_END_LOST, LEDGER_UNKNOWN);
	assert_int_equal(read.family.members[4].how, LEDGER_HOW_VFORK);
	read_end(&read, &writer);
}

/* A pid counts in its namespace alone: what does not come from who waits is another's. */
static void test_who_waits(void **state)
{
	struct writer writer;
	struct read read;

	(void)state;
	writer_begin(&writer, 16);
	struct writer_process *root = begin(&writer, MGL_HOW_ROOT, 0, 10, 1, 0);
	struct writer_process *other = begin(&writer, MGL_HOW_SPAWN, 1, 20, 10, 1);

	begin(&writer, MGL_HOW_SPAWN, 2, 21, 20, 2); /* whose parent dies: root waits for it */
	begin(&writer, MGL_HOW_SPAWN, 1, 22, 10, 3);
	note(root, 20, 0, 10);
	note(root, 21, 3 << 8, 11);
	note(other, 22, 7 << 8, 12);
	read_begin(&writer, &read);
	assert_end(&read, 1, LEDGER_END_EXIT, 0);
	assert_end(&read, 2, LEDGER_END_EXIT, 3);
	assert_end(&read, 3, LEDGER_END_LOST, LEDGER_UNKNOWN);
	read_end(&read, &writer);
}

static void test_the_first_of_a_pid_namespace(void **state)
{
	struct writer writer;
	struct read read;

	(void)state;
	writer_begin(&writer, 16);
	struct writer_process *root = begin(&writer, MGL_HOW_ROOT, 0, 10, 1, 0);

	begin(&writer, MGL_HOW_SPAWN, 1, 1, 0, 10);
	begin(&writer, MGL_HOW_EXEC, 2, 1, 0, 11);
	begin(&writer, MGL_HOW_FORK, 1, 1, 0, 30); /* two at one time */
	begin(&writer, MGL_HOW_FORK, 1, 1, 0, 31);
	note(root, 11, 7 << 8, 20);
	note(root, 12, 1 << 8, 40);
	note(root, 13, 2 << 8, 41);
	read_begin(&writer, &read);
	assert_end(&read, 1, LEDGER_END_EXEC, LEDGER_UNKNOWN);
	assert_end(&read, 2, LEDGER_END_EXIT, 7);
	assert_end(&read, 3, LEDGER_END_LOST, LEDGER_UNKNOWN);
	assert_end(&read, 4, LEDGER_END_LOST, LEDGER_UNKNOWN);
	read_end(&read, &writer);
}

/* What the collector saw stands; what went on as a program nobody recorded is not what ended. */
static void test_what_is_known_already(void **state)
{
	struct writer writer;
	struct read read;

	(void)state;
	writer_begin(&writer, 16);
	struct writer_process *root = begin(&writer, MGL_HOW_ROOT, 0, 10, 1, 0);
	struct writer_process *child = begin(&writer, MGL_HOW_FORK, 1, 11, 10, 1);

	child->header->end_kind = MGL_END_EXIT;
	child->header->end_code = 4;
	begin(&writer, MGL_HOW_FORK, 1, 12, 10, 1)->header->state = MGL_STATE_EXECING;
	note(root, 11, 9, 5);
	note(root, 12, 9, 5);
	read_begin(&writer, &read);
	assert_end(&read, 1, LEDGER_END_EXIT, 4);
	assert_end(&read, 2, LEDGER_END_EXEC, LEDGER_UNKNOWN);
	read_end(&read, &writer);
}

static void shell(struct writer *writer, int32_t pid, uint64_t ms, const char *command)
{
	writer_command(begin(writer, MGL_HOW_SPAWN, 1, pid, 10, ms), 3,
		       (const char *[]){"sh", "-c", command});
}

static void called(struct writer_process *p, const char *command, uint32_t status, uint64_t since,
		   uint64_t ms)
{
	note(p, -mgl_command_hash(command, strlen(command)), status, ms)->since =
		p->writer->session->start_ns + since * 1000000;
}

static void test_shells_of_system(void **state)
{
	struct writer writer;
	struct read read;

	(void)state;
	writer_begin(&writer, 32);
	struct writer_process *root = begin(&writer, MGL_HOW_ROOT, 0, 10, 1, 0);

	shell(&writer, 11, 10, "a");
	shell(&writer, 12, 11, "b");
	shell(&writer, 13, 20, "a"); /* with the next at one time, and ends as that does */
	shell(&writer, 14, 21, "a");
	shell(&writer, 15, 40, "c"); /* with the next at one time, and ends otherwise */
	shell(&writer, 16, 41, "c");
	called(root, "a", 1 << 8, 8, 15);
	called(root, "b", 2 << 8, 9, 16);
	called(root, "a", 0, 18, 30);
	called(root, "a", 0, 19, 31);
	called(root, "c", 3 << 8, 38, 50);
	called(root, "c", 4 << 8, 39, 51);
	read_begin(&writer, &read);
	assert_end(&read, 1, LEDGER_END_EXIT, 1);
	assert_end(&read, 2, LEDGER_END_EXIT, 2);
	assert_end(&read, 3, LEDGER_END_EXIT, 0);
	assert_end(&read, 4, LEDGER_END_EXIT, 0);
	assert_end(&read, 5, LEDGER_END_LOST, LEDGER_UNKNOWN);
	assert_end(&read, 6, LEDGER_END_LOST, LEDGER_UNKNOWN);
	read_end(&read, &writer);
}

static void test_nonsense(void **state)
{
	struct writer writer;
	struct read read;

	(void)state;
	writer_begin(&writer, 16);
	struct writer_process *root = begin(&writer, MGL_HOW_ROOT, 77, 10, 1, 0);

	begin(&writer, MGL_HOW_EXEC, 2, 11, 10, 1); /* from itself */
	begin(&writer, MGL_HOW_EXEC, 1, 12, 10, 1); /* from another pid */
	begin(&writer, MGL_HOW_FORK, 99, 13, 13, 1);
	note(root, INT32_MIN, 0, 5);
	note(root, 11, 0x7f, 5);
	note(root, 12, 0x10000, 5);
	note(root, 13, 0, 5)->ns = 0;
	((struct mgl_waits *)(root->base +
			      (uint64_t)(root->header->waits - root->ref) * MGL_REF_BYTES))
		->next = root->header->waits; /* leads back to itself */
	read_begin(&writer, &read);
	assert_int_equal(ledger_reader_process(read.reader, 0)->damage, 1);
	assert_true(ledger_reader_process(read.reader, 0)->wait_count <=
		    (size_t)MGL_WAITS * MGL_WAIT_BLOCKS);
	assert_int_equal(read.family.members[0].how, LEDGER_HOW_ROOT);
	assert_int_equal(read.family.members[2].how, LEDGER_HOW_SPAWN);
	for (size_t i = 1; i < 4; i++)
		assert_end(&read, i, LEDGER_END_LOST, LEDGER_UNKNOWN);
	read_end(&read, &writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_pid_used_again),
		cmocka_unit_test(test_who_waits),
		cmocka_unit_test(test_the_first_of_a_pid_namespace),
		cmocka_unit_test(test_what_is_known_already),
		cmocka_unit_test(test_shells_of_system),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
