#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/core.h"
#include "agent/environ.h"
#include "agent/scratch.h"
#include "agent/seccomp.h"
#include "agent/target.h"

/* A sanitizer must come first, so the agent keeps out of this test's own program. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif

bool agent_frozen, agent_starting;
_Atomic bool agent_filtered;

static char folder[] = "/tmp/agent-target-XXXXXX";
static _Alignas(16) char room[TARGET_ROOM];

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), bytes);
	close(fd);
}

static bool loads(const char *name) { return target_loads_agent(AT_FDCWD, name, 0, false, room); }

static void test_programs_of_this_loader_load(void **state)
{
	char *const path = getenv("PATH");
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(loads("/proc/self/exe"), !IS_SANITIZED);
	assert_true(loads("/bin/sh"));
	assert_true(loads("/lib64/ld-linux-x86-64.so.2"));
	assert_int_equal(target_loads_agent(fd, "", AT_EMPTY_PATH, false, room), !IS_SANITIZED);
	assert_true(target_loads_agent(AT_FDCWD, "sh", 0, true, room));
	close(fd);
	assert_int_equal(setenv("PATH", "::/nowhere:/bin", 1), 0);
	assert_true(target_loads_agent(AT_FDCWD, "sh", 0, true, room));
	assert_true(target_loads_agent(AT_FDCWD, "no-such-program", 0, true, room));
	if (path)
		assert_int_equal(setenv("PATH", path, 1), 0);
}

/* What exec will refuse, or what only it can judge, is left to it. */
static void test_what_is_no_program_is_left_to_exec(void **state)
{
	(void)state;
	write_file("empty", "", 0);
	write_file("text", "echo hello\n", 11);
	write_file("no-interpreter", "#!", 2);
	write_file("blank-interpreter", "#!   \n", 6);
	write_file("missing-interpreter", "#!/nowhere/x -y\n", 16);
	write_file("itself", "#!itself\n", 9);
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_true(loads("empty"));
	assert_true(loads("text"));
	assert_true(loads("no-interpreter"));
	assert_true(loads("blank-interpreter"));
	assert_true(loads("missing-interpreter"));
	assert_true(loads("itself"));
	assert_true(loads("fifo"));
	assert_true(loads("."));
	assert_true(loads("not-there"));
	assert_true(target_loads_agent(AT_FDCWD, NULL, 0, false, room));
	assert_true(target_loads_agent(-1, "", AT_EMPTY_PATH, false, room));
}

/* An ELF file of a header and one program header whose fields a test then bends. */
struct small {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[3];
	char interpreter[64];
	Elf64_Dyn dynamic[4];
	char names[64];
};

static struct small small_make(const char *interpreter, const char *needed)
{
	struct small s = {
		.eh = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
		       .e_machine = EM_X86_64,
		       .e_phoff = offsetof(struct small, ph),
		       .e_phentsize = sizeof(Elf64_Phdr),
		       .e_phnum = 3},
		.ph = {{.p_type = PT_INTERP,
			.p_offset = offsetof(struct small, interpreter),
			.p_filesz = sizeof(s.interpreter)},
		       {.p_type = PT_LOAD, .p_vaddr = 0x10000, .p_filesz = sizeof(s)},
		       {.p_type = PT_DYNAMIC, .p_offset = offsetof(struct small, dynamic)}},
		.dynamic = {{.d_tag = DT_NEEDED, .d_un.d_val = 1},
			    {.d_tag = DT_STRTAB,
			     .d_un.d_ptr = 0x10000 + offsetof(struct small, names)}},
	};

	snprintf(s.interpreter, sizeof(s.interpreter), "%s", interpreter);
	snprintf(s.names + 1, sizeof(s.names) - 1, "%s", needed);
	return s;
}

static bool small_loads(const struct small *s)
{
	write_file("small", s, sizeof(*s));
	return loads("small");
}

#define LOADER "/lib64/ld-linux-x86-64.so.2"

static void test_others_do_not(void **state)
{
	struct small s = small_make(LOADER, "libc.so.6");

	(void)state;
	assert_true(small_loads(&s));
	s.eh.e_ident[EI_CLASS] = ELFCLASS32;
	assert_false(small_loads(&s));
	s = small_make(LOADER, "libc.so.6");
	s.eh.e_machine = EM_AARCH64;
	assert_false(small_loads(&s));
	s = small_make("/lib/ld-musl-x86_64.so.1", "libc.so");
	assert_false(small_loads(&s));
	s = small_make("/nix/store/x-glibc/lib/ld-linux-x86-64.so.2", "libc.so.6");
	assert_true(small_loads(&s));
	s = small_make("/lib64/not-ld-linux-x86-64.so.2", "libc.so.6");
	assert_false(small_loads(&s));
	s.ph[0].p_type = PT_NULL; /* static */
	assert_false(small_loads(&s));
	s = small_make(LOADER, "libasan.so.8");
	assert_false(small_loads(&s));
	write_file("script", "#! ./small\n", 11);
	assert_false(loads("script"));
}

static void test_damaged_files_end_the_inspection(void **state)
{
	unsigned seed = 11;

	(void)state;
	for (int round = 0; round < 500; round++) {
		struct small s = small_make(LOADER, "libasan.so.8");
		unsigned char *bytes = (unsigned char *)&s;

		for (int i = 0; i < 8; i++)
			bytes[4 + (size_t)rand_r(&seed) % (sizeof(s) - 4)] =
				(unsigned char)rand_r(&seed);
		write_file("small", &s, round % 3 ? sizeof(s) : (size_t)rand_r(&seed) % sizeof(s));
		memset(room, 0x5a, sizeof(room));
		loads("small");
	}
	/* Nothing of them is left in the room. */
	struct small whole = small_make(LOADER, "libc.so.6");

	assert_true(small_loads(&whole));
}

#define LIST(...) ((char *const[]){__VA_ARGS__, NULL})

/* As execve(2) has it: pointers and strings are a quarter of the stack, and one is 128 KiB. */
static void test_what_fits_beside_ours(void **state)
{
	static char big[130000], other[130000], preload[(128 << 10) - 5];
	struct rlimit before;

	(void)state;
	assert_true(environ_set(ENVIRON_PRELOAD, "/agent.so"));
	assert_int_equal(getrlimit(RLIMIT_STACK, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_STACK, &(struct rlimit){100000, before.rlim_max}), 0);
	memset(big, 'x', sizeof(big) - 1);
	memset(other, 'y', sizeof(other) - 1);
	memcpy(big, "BIG=", 4);
	assert_true(target_takes(NULL, 100));
	assert_true(target_takes(LIST(big), 100));
	assert_false(target_takes(LIST(big), 2000));
	assert_false(target_takes(LIST(big, other), 100));
	assert_int_equal(setrlimit(RLIMIT_STACK, &(struct rlimit){1100000, before.rlim_max}), 0);
	assert_true(target_takes(LIST(big, other), 100));
	assert_false(target_takes(LIST(big, other), 20000));
	memset(preload, ':', sizeof(preload) - 1);
	memcpy(preload, "LD_PRELOAD=", 11);
	assert_false(target_takes(LIST(preload), 100));
	preload[sizeof(preload) - 20] = 0;
	assert_true(target_takes(LIST(preload), 100));
	assert_int_equal(setrlimit(RLIMIT_STACK, &before), 0);
}

static void test_scratch_is_given_once_and_comes_again(void **state)
{
	struct scratch a = scratch_take(100), b = scratch_take(100000), c;
	void *was = b.memory;

	(void)state;
	assert_non_null(a.memory);
	assert_non_null(b.memory);
	assert_true(b.bytes >= 100000);
	memset(a.memory, 1, a.bytes);
	memset(b.memory, 2, b.bytes);
	assert_int_equal(((char *)a.memory)[a.bytes - 1], 1);
	scratch_give(&b);
	c = scratch_take(90000);
	assert_ptr_equal(c.memory, was);
	scratch_give(&c);
	scratch_give(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs_of_this_loader_load),
		cmocka_unit_test(test_what_is_no_program_is_left_to_exec),
		cmocka_unit_test(test_others_do_not),
		cmocka_unit_test(test_damaged_files_end_the_inspection),
		cmocka_unit_test(test_what_fits_beside_ours),
		cmocka_unit_test(test_scratch_is_given_once_and_comes_again),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
