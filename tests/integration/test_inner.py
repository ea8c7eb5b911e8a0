"""Allocators inside of programs and libraries: changed where they stand, and exact; or left as they
are, and told."""

import os
import subprocess
import sys

import pytest

from oracle import PEAK, TOTALS, peak, totals

WAYS = {
    "je_": ["-DWITH_X"],
    "_rjem_": ["-DWITH_X"],
    "": ["-DWITH_X"],
    "mi_": ["-DWITH_MI"],
    "tc_": ["-DWITH_TC"],
    "scalable_": ["-DWITH_TBB"],
    "rp": [],
    "dl": [],
    "sn_": ["-DWITH_SN"],
}
STATIC = {
    "jemalloc": ["-l:libjemalloc.a", "-lstdc++", "-lm", "-lpthread", "-ldl"],
    "jemalloc, position independent": ["-l:libjemalloc_pic.a", "-lstdc++", "-lm", "-lpthread", "-ldl"],
    "tcmalloc": ["-l:libtcmalloc_minimal.a", "-lstdc++", "-lm", "-lpthread"],
}


@pytest.fixture(scope="module")
def build_program(root, tmp_path_factory):
    """build_program(source, *flags): of tests/programs, once a way; skips without what it needs."""
    folder, made = tmp_path_factory.mktemp("inner"), {}

    def build_it(source, *flags):
        if (source, flags) not in made:
            path = folder / f"{len(made)}-{source.partition('.')[0]}"
            compiler = "c++" if source.endswith(".cpp") else "cc"
            libraries = [flag for flag in flags if flag.startswith("-l")]
            rest = [flag for flag in flags if not flag.startswith("-l")]
            done = subprocess.run(
                [compiler, "-g", "-D_GNU_SOURCE", *rest, "-o", path,
                 root / "tests" / "programs" / source, *libraries],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            made[source, flags] = path if done.returncode == 0 else done.stderr
        if isinstance(made[source, flags], str):
            assert "cannot find" in made[source, flags], made[source, flags]
            # tools/packages has them where a system has.
            (pytest.fail if os.environ.get("CI") else pytest.skip)("not here: " + made[source, flags])
        return made[source, flags]

    return build_it


def own_mallocs(run):
    return [loss["detail"] for loss in run.root["losses"] if loss["kind"] == "own_malloc"]


def assert_family(run):
    """The counts of the program, as a whole and by the function that called."""
    assert own_mallocs(run) == []
    assert run.report.of_program(run.root) == run.said.only(
        [key for key in (*TOTALS, *PEAK) if key != "failed"]
    )
    assert run.root["failed"] == run.said["failed"]
    assert run.root["unknown_frees"] == 0
    found = run.report.by_function(run.root)
    said = dict(run.said.rows("site"))
    assert {n: [s["allocations"], s["allocated_bytes"]] for n, s in found.items()} == said


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("family", WAYS)
def test_every_function_of_a_family(record, build_program, family, level):
    """Both ends of a call are seen by the compiler, from -O2 on: it counts on what registers are
    left alone."""
    program = build_program("own_family.c", f"-DFAMILY={family}", *WAYS[family], level)
    assert_family(record.run(program, 1, 20000))


@pytest.mark.parametrize(
    "flags",
    [
        ["-DHIDDEN"], ["-DAPART"], ["-rdynamic"], ["-no-pie"], ["-no-pie", "-DHIDDEN"],
        ["-fcf-protection=full"], ["-fno-omit-frame-pointer"], ["-fno-asynchronous-unwind-tables"],
        ["-flto", "-DAPART"], ["-mcmodel=large", "-no-pie"], ["-Wl,-z,separate-code"],
        ["-Wl,-z,noseparate-code"], ["-Wl,--hash-style=sysv"], ["-fpatchable-function-entry=8"],
        ["-march=native"], ["-Wl,-z,now"], ["-Wl,--gc-sections", "-ffunction-sections"],
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("family", ["", "je_"])
def test_every_way_to_build_it(record, build_program, family, flags):
    flags = [f"-DFAMILY={family}", "-DWITH_X", "-O2", *flags]
    assert_family(record.run(build_program("own_family.c", *flags), 2, 20000))


@pytest.mark.parametrize("threads, forks", [(1, 0), (8, 0), (1, 5), (2, 3)])
@pytest.mark.parametrize("allocator", STATIC)
def test_real_ones_linked_into_a_program(record, build_program, allocator, threads, forks):
    """Where several threads or processes go on, what the C library itself takes is the program's
    malloc's, too: the program's own is told apart by its module."""
    program = build_program("oracle_mix.c", "-O1", "-fno-builtin", *STATIC[allocator])
    env = {"FOREIGN_ALLOCATOR": "1"}
    run = record.run(program, 31, 10000, threads, forks, env=env)
    by_pid = {process["pid"]: process for process in run.report.processes}
    keys = ("allocations", "frees", "allocated_bytes", "live_blocks", "live_bytes", "temporary")
    sites = "allocations frees allocated_bytes temporary moved live_blocks live_bytes".split()
    assert len(run.all_said) == max(forks, 1)
    for said in run.all_said:
        process = by_pid[said.pid]
        found = run.report.by_function(process)
        for name, numbers in said.rows("site"):
            expected = dict(zip(sites, numbers))
            assert {k: found[name][k] for k in keys} == {k: expected[k] for k in keys}, name
        assert process["failed"] == said["failed"]
        assert process["unknown_frees"] == 0
        assert process["losses"] == []


def test_one_thread_of_jemalloc_is_exact_to_its_peak(record, build_program):
    program = build_program("oracle_mix.c", "-O1", "-fno-builtin", *STATIC["jemalloc"])
    run = record.run(program, 3, 20000, 1, env={"FOREIGN_ALLOCATOR": "1"})
    assert totals(run.root) == run.said.only(TOTALS)
    assert peak(run.root) == run.said.only(PEAK)
    assert run.root["peak_error_bytes"] == 0


@pytest.mark.parametrize("flags", [[], ["-DTHROWS"], ["-DBY_MALLOC"], ["-DBY_MALLOC", "-DTHROWS"]])
@pytest.mark.parametrize("level", ["-O1", "-O2"])
def test_operators_of_the_programs_own(record, build_program, level, flags):
    """From a pool that nothing else sees, or by malloc, which is seen: each block once."""
    run = record.run(build_program("own_operators.cpp", level, *flags))
    assert own_mallocs(run) == []
    keys = [key for key in (*TOTALS, *PEAK) if key != "failed"]
    assert run.report.of_program(run.root) == run.said.only(keys)
    assert run.root["failed"] == run.said["failed"]


@pytest.mark.parametrize("allocator", STATIC)
def test_operators_of_a_linked_allocator(record, build_program, allocator):
    program = build_program("throws.cpp", "-O1", *STATIC[allocator])
    native = record.native(program)
    run = record.run(program)
    assert own_mallocs(run) == []
    assert [said.lines for said in run.all_said] == [said.lines for said in native]


def told(run, name):
    """What is said of each allocator that is not seen, without its path."""
    return [detail.replace(str(name), "PROGRAM") for detail in own_mallocs(run)]


@pytest.mark.parametrize(
    "flags, why",
    [
        (["-Dje_free(p)=je_free(p)", "-DNO_CODE", "-O1"], "je_free is too short to be changed"),
        (["-DIN_USE", "-O2"], None),
    ],
)
def test_what_cannot_be_changed_is_told(record, cc, flags, why):
    source = """
#include <pthread.h>
#include <stddef.h>
static char room[1 << 16] __attribute__((aligned(16))); static size_t used;
static volatile int freed;
__attribute__((noipa)) void *je_malloc(size_t n) { used += 64; return room + used + n * 0; }
#ifdef NO_CODE
__attribute__((noipa)) void je_free(void *p) { (void)p; }
#else
__attribute__((noipa)) void je_free(void *p) { freed += p != NULL; }
#endif
__attribute__((noipa)) static int next(int n) { return n + 1; }
int main(void)
{
	for (int i = 0; i < 10; i++) je_free(je_malloc(16));
	return next(-1);
}
"""
    program = cc("refused" + "".join(flags).strip("-").replace("(", "").replace(")", ""), source,
                 *(flag for flag in flags if "=" not in flag))
    run = record.run(program)
    assert told(run, program) == ([f"PROGRAM ({why})"] if why else [])
    assert run.root["allocations"] == (0 if why else 10)
    assert run.root["frees"] == (0 if why else 10)


LIBRARY = """
#include <stddef.h>
#include <string.h>
static char room[1 << 16] __attribute__((aligned(16))); static size_t used;
static volatile int freed;
LINKAGE __attribute__((noipa)) void *mi_malloc(size_t n) { used += 64; return memset(room + used, 0, n); }
LINKAGE __attribute__((noipa)) void mi_free(void *p) { freed += p != NULL; }
__attribute__((noipa)) int answer(void) { for (int i = 0; i < 10; i++) mi_free(mi_malloc(40)); return freed; }
"""
CALLER = """
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>
static void *sleeps(void *unused) { pause(); return unused; }
extern int answer(void) __attribute__((weak));
int main(int argc, char **argv)
{
#ifdef THREADS
	pthread_t other;
	pthread_create(&other, NULL, sleeps, NULL);
#endif
	void *library = argc > 2 ? dlopen(argv[2], RTLD_NOW) : NULL;
	int (*found)(void) = library ? (int (*)(void))dlsym(library, "answer") : answer;
	return found ? found() : 99;
}
"""


def assert_ten(run, library):
    assert own_mallocs(run) == []
    ours = run.report.by_function(run.root, library)["answer"]
    assert (ours["allocations"], ours["allocated_bytes"], ours["frees"]) == (10, 400, 10)


@pytest.mark.parametrize("linkage", ["", '__attribute__((visibility("hidden")))'])
def test_allocators_in_libraries(record, cc, linkage):
    """Of one that the program is linked with, and of one that it opens."""
    library = cc(f"libinner{len(linkage)}.so", LIBRARY, f"-DLINKAGE={linkage}", "-shared", "-fPIC",
                 "-O2")
    linked = cc(f"linked{len(linkage)}", CALLER, "-Wl,--no-as-needed", library,
                f"-Wl,-rpath,{library.parent}")
    assert_ten(record.run(linked, returncode=10), library)
    for name, flags in ("opens_inner", []), ("opens_inner_late", ["-DTHREADS"]):
        opens = cc(name, CALLER, "-Wno-unused-function", "-ldl", *flags)
        assert_ten(record.run(opens, library, returncode=10), library)


def test_functions_that_preload_never_reaches(record, build_program, cc):
    """jemalloc's own functions, of a library that is linked as ever: the rest goes by malloc."""
    source = """
#include <stddef.h>
#include <stdlib.h>
void *mallocx(size_t, int); void *rallocx(void *, size_t, int); void sdallocx(void *, size_t, int);
void dallocx(void *, int);
int main(void)
{
	for (int i = 0; i < 10; i++) {
		void *p = malloc(100), *q = mallocx(200, 0);
		p = rallocx(p, 300, 0);
		sdallocx(p, 300, 0);
		if (i % 2) dallocx(q, 0); else free(q);
	}
	return mallocx(1000, 0) == NULL;
}
"""
    try:
        program = cc("by_x", source, "-fno-builtin", "-l:libjemalloc.so.2")
    except subprocess.CalledProcessError:
        pytest.skip("jemalloc is not here")
    run = record.run(program)
    assert run.root["losses"] == []
    assert run.root["unknown_frees"] == 0
    ours = run.report.of_program(run.root)
    assert ours["allocations"] == 31
    assert (ours["frees"], ours["live_bytes"]) == (30, 1000)
    assert ours["allocated_bytes"] == 10 * (100 + 200 + 300) + 1000


def test_children_and_what_is_left_out(record, build_program):
    """Each program of a tree is looked at; one that is not to be recorded runs as it is."""
    program = build_program("own_family.c", "-DFAMILY=je_", *WAYS["je_"], "-O2")
    said = record.folder / "child.said"
    script = record.folder / "script"
    script.write_text(f"{program} {said} 5 1000; true\n")
    run = record.run("sh", before=["sh", script])
    (child,) = [p for p in run.report.processes if p["exe"] == str(program)]
    assert child["losses"] == []
    assert child["allocations"] > 300
    run = record.run("sh", before=["sh", script], options=["--not", program.name])
    assert str(program) not in [p["exe"] for p in run.report.processes]


def test_a_program_whose_file_has_no_name(record, build_program):
    """Executed from memory: there is nothing to open by a path."""
    program = build_program("own_family.c", "-DFAMILY=je_", *WAYS["je_"], "-O2")
    script = record.folder / "from_memory.py"
    script.write_text(f"""
import os, sys
fd = os.memfd_create("nameless")
os.write(fd, open("{program}", "rb").read())
os.execve(fd, ["nameless", sys.argv[1], "7", "5000"], os.environ)
""")
    run = record.run(script, before=[sys.executable])
    child = run.report.processes[-1]
    assert child["losses"] == []
    assert child["allocations"] == run.said["allocations"]
    assert child["frees"] == run.said["frees"]


def test_lengths_of_instructions(record):
    """Against objdump's, over the machine code of some 100,000 lines each."""
    where = subprocess.run(["ldd", record.tool], capture_output=True, text=True, check=True).stdout
    libraries = [line.split()[2] for line in where.splitlines() if "=> /" in line]
    sources = [record.tool, *libraries[:8]]
    assert any("libc.so" in str(path) for path in sources)
    for path in sources:
        listing = subprocess.run(["objdump", "-d", "-w", "-j", ".text", path],
                                 capture_output=True, text=True, check=True).stdout
        lines = [line for line in listing.splitlines() if "(bad)" not in line][:400000]
        # Data among the code, where the listing itself has lost its place; and FWAIT, which it
        # takes for a part of what follows.
        lines = [line for line in lines if not line.split("\t")[-1].startswith(("rex.", ".byte"))
                 and "\t9b " not in line]
        answer = subprocess.run([record.program("insn_lengths")], input="\n".join(lines) + "\n",
                                capture_output=True, text=True, check=True).stdout.splitlines()
        read = int(answer[-1].split()[1])
        wrong = [line for line in answer if line.startswith("wrong")]
        unknown = [line for line in answer if line.startswith("unknown")]
        assert wrong == [], path
        assert len(unknown) <= read / 10000, (path, unknown[:10])


def test_what_stands_elsewhere_and_jumps_back(record, cc):
    """A compiler puts what is hardly ever run apart: that may go back to behind the first
    instructions, which a change would replace."""
    source = """
#include <stddef.h>
#include <stdio.h>
static char room[1 << 16] __attribute__((aligned(16))); static size_t used;
static volatile int ready, freed, tries;
__attribute__((cold, noipa)) static void prepare(size_t n) { (void)n; ready = ++tries % 3 == 0; }
__attribute__((noipa)) static int lacks(size_t n) { return !ready && n; }
__attribute__((noipa)) void *je_malloc(size_t n)
{
	while (lacks(n)) prepare(n);
	used += 64;
	return room + used;
}
__attribute__((noipa)) void je_free(void *p) { while (lacks(1)) prepare(1); freed += p != NULL; }
int main(void)
{
	for (int i = 0; i < 100; i++) {
		ready = i % 2;
		void *p = je_malloc(16);
		ready = i % 3 == 0;
		je_free(p);
	}
	printf("%d %d\\n", freed, tries);
	return 0;
}
"""
    for level in "-O2", "-O1":
        program = cc("afar" + level, source, level)
        expected = [said.lines for said in record.native(program)]
        run = record.run(program)
        assert [said.lines for said in run.all_said] == expected
        assert len(own_mallocs(run)) == (run.root["frees"] < 100)


def test_functions_of_those_names_that_are_others(record, cc):
    """They get the arguments they are called with, and what they return is returned."""
    source = """
#include <stdio.h>
#include <string.h>
#define APART __attribute__((noipa))
struct pair { long a, b; };
struct big { long a[8]; };
APART struct pair tc_malloc(const char *s) { return (struct pair){strlen(s), 77}; }
APART int tc_free(int a, int b, int c, int d, int e, int f) { return a + b + c + d + e + 10 * f; }
APART struct big tc_calloc(int a, int b, int c, int d, int e) { return (struct big){{a, b, c, d, e}}; }
APART int mi_malloc(int x) { return -x; }
APART int mi_free(int x) { return x + 1; }
APART int mi_realloc(int a, int b) { return a * b; }
APART long je_malloc(long x) { return x; }
APART long je_free(long x) { return x * 2; }
APART long je_posix_memalign(long x) { return x / 100; }
int main(void)
{
	for (int i = 0; i < 5; i++) {
		struct pair p = tc_malloc("hello");
		struct big b = tc_calloc(i, 2, 3, 4, 5);
		printf("%ld %ld %ld %ld\\n", p.a, p.b, b.a[0], b.a[4]);
		printf("%d\\n", tc_free(i, 2, 3, 4, 5, 6));
		printf("%d %d %d\\n", mi_malloc(i), mi_free(i), mi_realloc(i, 4));
		printf("%ld %ld\\n", je_malloc(-i), je_malloc(i * 0x7fffffffffff));
		printf("%ld %ld %ld\\n", je_free(7), je_posix_memalign(0), je_posix_memalign(13));
	}
	return 0;
}
"""
    for level in "-O0", "-O2":
        program = cc("others" + level, source, level, "-w")
        native = subprocess.run([program], capture_output=True, text=True, check=True)
        recorded = subprocess.run([record.tool, "-q", "-o", record.folder / "others.mgp", program],
                                  capture_output=True, text=True, check=True)
        assert recorded.stdout == native.stdout
        assert native.stdout.count("5 77") == 5


@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
def test_vector_registers_are_as_they_were(record, cc, level):
    """Where the compiler sees that a function leaves them alone it keeps numbers in them."""
    source = """
#include <stddef.h>
#include <stdio.h>
#define APART __attribute__((noinline))
static char room[1 << 16] __attribute__((aligned(16))); static size_t used;
static volatile int freed;
APART static void *je_malloc(size_t n) { used += n; return room + used % 32768; }
APART static void je_free(void *p) { freed += p != NULL; }
APART static double sum(int n, double x)
{
	double a = x * 2, b = x * 3, c = x * 5;
	for (int i = 0; i < n; i++) {
		void *p = je_malloc(16);
		a += b; b += c; c *= 1.5;
		je_free(p);
	}
	return a + b + c;
}
int main(int argc, char **argv)
{
	double all = 0;
	(void)argv;
	for (int i = 0; i < 10; i++) all += sum(10, argc + .25 * i);
	printf("%.17g\\n", all);
	return 0;
}
"""
    program = cc("vectors" + level, source, level)
    native = subprocess.run([program], capture_output=True, text=True, check=True)
    profile = record.folder / "vectors.mgp"
    recorded = subprocess.run([record.tool, "-q", "-o", profile, program],
                              capture_output=True, text=True, check=True)
    assert recorded.stdout == native.stdout


OPENS_AGAIN = """
#include <dlfcn.h>
#include <stdio.h>
static int maps(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	int c, lines = 0;
	while ((c = getc(file)) != EOF) lines += c == '\\n';
	fclose(file);
	return lines;
}
int main(int argc, char **argv)
{
	int before = 0;
	for (int i = 0; i < 200; i++) {
		void *library = dlopen(argv[2], RTLD_NOW);
		int (*found)(void) = (int (*)(void))dlsym(library, "answer");
		if (!found || found() != 10 || dlopen(argv[3], RTLD_NOW)) return 1;
		dlclose(library);
		if (i == 20) before = maps();
	}
	return maps() > before + 10 ? 2 : argc - 4;
}
"""


def test_a_library_opened_again_and_again(record, cc):
    """Also one whose opening fails half way; by a name that depends on the directory, too."""
    missing = ('void no_such(void); __attribute__((constructor)) static void first(void)'
               '{ no_such(); }')
    library = cc("libagain.so", LIBRARY, "-DLINKAGE=", "-shared", "-fPIC", "-O2")
    fails = cc("libfails.so", LIBRARY + missing, "-DLINKAGE=", "-shared", "-fPIC", "-O2")
    program = cc("opens_again", OPENS_AGAIN, "-ldl")
    run = record.run(program, library, fails)
    assert own_mallocs(run) == []
    ours = run.report.by_function(run.root, library)["answer"]
    assert (ours["allocations"], ours["allocated_bytes"], ours["frees"]) == (2000, 80000, 2000)
    run = record.run(program, f"./{library.name}", fails, before=["env", "-C", library.parent])
    assert own_mallocs(run) == []


@pytest.mark.parametrize("forbidden", ["open", "pwrite64"])
def test_filters_that_kill_what_a_look_takes(record, cc, forbidden):
    """Such a library is not looked at then; that is told."""
    source = CALLER.replace("int main(", """
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
int old_main(""").replace("old_main", "run") + """
int main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FORBIDDEN, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {4, filter};
	dlopen("libm.so.6", RTLD_NOW);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 98;
	return run(argc, argv);
}
"""
    library = cc("libsecret.so", LIBRARY, "-DLINKAGE=", "-shared", "-fPIC", "-O2")
    program = cc(f"filters_{forbidden}", source, f"-DFORBIDDEN=SYS_{forbidden}", "-ldl",
                 "-Wno-unused-function")
    run = record.run(program, library, returncode=10)
    assert own_mallocs(run) == [f"{library} (mi_malloc is in a file that cannot be read)"]


SMALL = """
#include <stddef.h>
#include <string.h>
static char room[1 << 20] __attribute__((aligned(64))); static size_t used;
static volatile int freed;
__attribute__((noipa)) void *mi_malloc(size_t n) { size_t at = used; used += (n + 15) & ~(size_t)15; return memset(room + at, 0, n); }
__attribute__((noipa)) void *mi_realloc(void *p, size_t n) { void *q = mi_malloc(n); if (p) memcpy(q, p, n < 8 ? n : 8); return q; }
__attribute__((noipa)) void mi_free(void *p) { freed += p != NULL; }
__attribute__((noipa)) int answer(void)
{
	void *p[300];
	for (int i = 0; i < 300; i++) p[i] = mi_malloc(i % 3 == 0 ? 8 : i % 3 == 1 ? 32 : 100);
	for (int i = 0; i < 300; i += 2) p[i] = mi_realloc(p[i], i % 4 ? 16 : 64);
	for (int i = 0; i < 290; i++) mi_free(p[i]);
	return 10;
}
"""


def test_small_blocks_of_a_library_opened_later(record, cc):
    """Nearer to each other than the agent tells apart in a process of glibc's: left out, and said.
    What is larger is exact."""
    library = cc("libsmall.so", SMALL, "-shared", "-fPIC", "-O2")
    opens = cc("opens_small", CALLER, "-Wno-unused-function", "-ldl")
    run = record.run(opens, library, returncode=10)
    sizes = [8 if i % 3 == 0 else 32 if i % 3 == 1 else 100 for i in range(300)]
    again = {i: 16 if i % 4 else 64 for i in range(0, 300, 2)}
    left = [*sizes, *again.values()]
    last = [again.get(i, sizes[i]) for i in range(290, 300)]
    ours = run.report.by_function(run.root, library)["answer"]
    assert ours["allocations"] == sum(size > 24 for size in left)
    assert ours["allocated_bytes"] == sum(size for size in left if size > 24)
    assert ours["live_blocks"] == sum(size > 24 for size in last)
    assert ours["live_bytes"] == sum(size for size in last if size > 24)
    assert run.root["losses"] == [{
        "kind": "unrecorded", "count": sum(size <= 24 for size in left),
        "detail": "small blocks of libraries opened later",
    }]  # fmt: skip


@pytest.mark.parametrize("family", ["je_arrow_", "duckdb_je_", "arrow_mi_"])
def test_prefixes_of_libraries_that_bring_their_own(record, build_program, family):
    flags = WAYS["mi_" if family.endswith("mi_") else "je_"]
    assert_family(record.run(build_program("own_family.c", f"-DFAMILY={family}", *flags, "-O2"), 4, 9000))


def test_functions_of_one_name_are_no_family(record, cc):
    """A program's own new or free that is called by a prefix it shares with an allocator."""
    program = cc("no_family", """
#include <stdlib.h>
struct list { struct list *next; int value; };
__attribute__((noipa)) struct list *tc_new(int value, struct list *next, int a, int b, int c, int d, int e)
{
	struct list *one = malloc(sizeof(*one));
	one->next = next;
	one->value = value + a + b + c + d + e;
	return one;
}
__attribute__((noipa)) int mi_free(struct list *one) { int value = one->value; free(one); return value; }
int main(void)
{
	int sum = 0;
	for (int i = 0; i < 10; i++) sum += mi_free(tc_new(1, NULL, 1, 1, 1, 1, 1));
	return sum;
}
""", "-O2", "-fno-builtin")
    run = record.run(program, returncode=60)
    assert (run.root["allocations"], run.root["frees"]) == (10, 10)
    assert run.root["losses"] == []
