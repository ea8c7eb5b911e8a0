/* Functions changed where they stand do what they did, by way of the hook; or are left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/patch.h"

void *private_alloc(size_t bytes) { return calloc(1, bytes); }

/* A hook that counts in its record and goes on; what it leaves on the stack it takes back. */
struct record {
	void *call;
	uint64_t calls;
};
__asm__(".text\n"
	"counting_hook:\n"
	"	incq 8(%r9)\n"
	"	movq (%r9), %rax\n"
	"	popq %r9\n"
	"	jmp *%rax\n");
extern void counting_hook(void) __attribute__((visibility("hidden")));

/* At the start of 16 bytes as compilers put them; next: what stands right behind. */
#define FUNCTION_BEFORE(name, code, next)                                                       \
	__asm__(".text\n.p2align 4\n.globl " #name ", " #name "_end\n.hidden " #name ", " #name \
		"_end\n" #name ":\n" code "\n" #name "_end:\n" next "\n.p2align 4\n");          \
	extern const char name##_end[];                                                         \
	extern long name(long)
#define FUNCTION(name, code) FUNCTION_BEFORE(name, code, "")

__asm__(".data\npatch_number: .quad 40\nseven_pointer: .quad seven\n.text\n.p2align 4\nseven: movl $7, %eax\nret\n");

FUNCTION(with_frame, "pushq %rbp\nmovq %rsp, %rbp\nleaq 1(%rdi), %rax\npopq %rbp\nret");
FUNCTION(with_marker, "endbr64\npushq %rbx\nmovq %rdi, %rbx\nleaq 2(%rbx), %rax\npopq %rbx\nret");
FUNCTION(with_little, "endbr64\nxorl %eax, %eax\nret");
FUNCTION(with_data, "movq patch_number(%rip), %rax\naddq %rdi, %rax\nret");
FUNCTION(with_compare, "cmpl $40, patch_number(%rip)\nje 1f\nud2\n1: leaq 3(%rdi), %rax\nret");
FUNCTION(with_test, "testq %rdi, %rdi\nje 1f\nleaq 4(%rdi), %rax\nret\n1: movl $-1, %eax\nret");
FUNCTION(with_far_test, "testq %rdi, %rdi\n.byte 0x0f, 0x84\n.long 1f - . - 4\nleaq 4(%rdi), %rax\n"
			"ret\n1: movl $-1, %eax\nret");
FUNCTION(with_jump, ".byte 0xe9\n.long with_data - . - 4");
FUNCTION(with_short_jump, ".byte 0xeb, 1f - . - 1\n1: leaq 5(%rdi), %rax\nret");
FUNCTION(with_call, "pushq %rax\ncall seven\npopq %rcx\nret");
FUNCTION(with_call_by, "pushq %rax\ncall *seven_pointer(%rip)\npopq %rcx\nret");
FUNCTION(by_register, "pushq %rax\ncall *%rdi\npopq %rcx\nret");
FUNCTION(with_call_first, "call seven\nret");
FUNCTION(with_addr32_call, "pushq %rax\n.byte 0x67\ncall seven\npopq %rcx\nret");
FUNCTION(with_return, "ret");
FUNCTION(with_thread, "movq %fs:0, %rax\nxorl %eax, %eax\nret");
FUNCTION(with_vectors,
	 "vpxor %xmm0, %xmm0, %xmm0\nvmovq %xmm0, %rax\nleaq 6(%rdi,%rax), %rax\nret");

FUNCTION_BEFORE(too_short, "ret", "movl $1, %eax\nret");
FUNCTION(comes_back, "1: incq %rdi\ncmpq $9, %rdi\njl 1b\nmovq %rdi, %rax\nret");
FUNCTION(comes_inside, "xorl %eax, %eax\n1: incq %rdi\ncmpq $9, %rdi\njl 1b\nmovq %rdi, %rax\nret");
FUNCTION_BEFORE(comes_from_afar,
		"pushq %rbx\nmovq %rdi, %rbx\n2: decq %rbx\njg 1f\nmovq %rbx, %rax\npopq %rbx\nret",
		"nop\n1: decq %rbx\njmp 2b");
FUNCTION_BEFORE(from_farther,
		"pushq %rbx\nmovq %rdi, %rbx\n2: decq %rbx\njg 1f\nmovq %rbx, %rax\npopq %rbx\nret",
		"nop\n3: decq %rbx\njmp 2b\nnop\n1: incq %rbx\njmp 3b");
FUNCTION(with_loop, "movq %rdi, %rcx\njrcxz 1f\n1: movq %rdi, %rax\nret");
FUNCTION(with_unknown, "xbegin 1f\n1: movq %rdi, %rax\nret");
FUNCTION(unknown_later, "pushq %rbx\nmovq %rdi, %rax\npopq %rbx\nret\n.byte 0x06");

struct subject {
	const char *name;
	long (*function)(long);
	const char *end;
	const char *why; /* it cannot be changed */
};
#define SUBJECT(name, why)                   \
	{                                    \
#name, name, name##_end, why \
	}

static const char *plan(struct patch *p, const struct subject *s, bool with_size)
{
	uintptr_t function = (uintptr_t)s->function;

	print_message("%s\n", s->name);
	return patch_plan(p, function, with_size ? (uintptr_t)s->end - function : 0, function,
			  (uintptr_t)s->end + 64);
}

/* As often as it is called it counts; what it returns stays. */
static void check_changed(const struct subject *s, uint8_t *place, bool with_size)
{
	struct record record = {0};
	struct patch p;
	bool returns = s->function != with_return; /* with what there was */
	long some = s->function(100), none = s->function(0);

	assert_null(plan(&p, s, with_size));
	assert_null(patch_place(&p, place, &record, counting_hook));
	record.call = p.call;
	assert_true(patch_apply(&p));
	for (int n = 0; n < 3; n++) {
		long a = s->function(100), b = s->function(0);

		assert_true(!returns || (a == some && b == none));
	}
	assert_int_equal(record.calls, 6);
	assert_true(patch_undo(&p));
	s->function(100);
	assert_int_equal(record.calls, 6);
}

static void test_what_is_changed_does_what_it_did(void **state)
{
	static const struct subject changed[] = {
		SUBJECT(with_frame, NULL),       SUBJECT(with_marker, NULL),
		SUBJECT(with_little, NULL),      SUBJECT(with_data, NULL),
		SUBJECT(with_compare, NULL),     SUBJECT(with_test, NULL),
		SUBJECT(with_far_test, NULL),    SUBJECT(with_jump, NULL),
		SUBJECT(with_call, NULL),        SUBJECT(with_call_first, NULL),
		SUBJECT(with_addr32_call, NULL), SUBJECT(with_call_by, NULL),
		SUBJECT(with_thread, NULL),      SUBJECT(with_vectors, NULL),
		SUBJECT(with_return, NULL),
	};
	const uint32_t count = sizeof(changed) / sizeof(changed[0]);
	uint8_t *room = patch_room((uintptr_t)with_frame, 2 * count, NULL);

	(void)state;
	assert_non_null(room);
	for (uint32_t i = 0; i < count; i++, room += 2 * PATCH_PLACE_BYTES) {
		check_changed(&changed[i], room, true);
		if (changed[i].function != with_return) /* it ends, and who knows what is next */
			check_changed(&changed[i], room + PATCH_PLACE_BYTES, false);
	}
}

static void test_what_cannot_be_is_left_alone(void **state)
{
	static const struct subject left[] = {
		SUBJECT(too_short, "is too short to be changed"),
		SUBJECT(with_short_jump, "jumps back to its first instructions"),
		SUBJECT(comes_back, "jumps back to its first instructions"),
		SUBJECT(comes_inside, "jumps back to its first instructions"),
		SUBJECT(comes_from_afar, "jumps back to its first instructions"),
		SUBJECT(from_farther, "jumps back to its first instructions"),
		SUBJECT(by_register, "has an instruction that is not known"),
		SUBJECT(with_loop, "has an instruction that is not known"),
		SUBJECT(with_unknown, "has an instruction that is not known"),
		SUBJECT(unknown_later, "has an instruction that is not known"),
	};
	struct patch p;

	(void)state;
	for (uint32_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
		const char *why = plan(&p, &left[i], true);

		assert_non_null(why);
		assert_string_equal(why, left[i].why);
	}
	/* Without its size it ends at its return. */
	assert_null(plan(&p, &left[sizeof(left) / sizeof(left[0]) - 1], false));
}

/* A library that is opened again and again takes no more of them each time. */
static void test_room_is_used_again(void **state)
{
	uintptr_t near = (uintptr_t)with_frame;
	void *records, *others;
	uint8_t *first = patch_room(near, 3, &records);
	uint8_t *second = patch_room(near, 3, &others);

	(void)state;
	assert_non_null(first);
	assert_non_null(records);
	assert_ptr_not_equal(first, second);
	assert_ptr_not_equal(records, others);
	patch_forget(near + 1, near + 100);
	assert_ptr_not_equal(patch_room(near, 1, &others), first);
	patch_forget(near, near + 1);
	assert_ptr_equal(patch_room(near, 3, &others), first);
	assert_ptr_equal(others, records);
	assert_ptr_equal(patch_room(near, 3, &others), second);
	assert_ptr_not_equal(patch_room(near, 3, &others), second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_changed_does_what_it_did),
		cmocka_unit_test(test_what_cannot_be_is_left_alone),
		cmocka_unit_test(test_room_is_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
