"""Every way to lose something, brought about: the summary, the report, info and JSON say it, with
its number, and the program is as it was."""

import dataclasses
import json
import os
import struct
import subprocess

import pytest

from ledger_file import LOSSES, Ledger

# An allocator to preload. Some sizes have it do what allocators do not: see the program.
LIBRARY = r"""
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
static _Alignas(4096) char room[128 << 20];
static size_t used;
extern sigjmp_buf out __attribute__((weak));
void *hidden(size_t size) { used += (size + 47) & ~(size_t)31; return room + used - ((size + 31) & ~(size_t)31); }
void *malloc(size_t size)
{
	if (size == 4001) raise(SIGUSR1);
	if (size == 4003) siglongjmp(out, 1);
	if (size == 4004) return room + sizeof(room) - 4096;
	if (size == 4005) return (void *)((uintptr_t)1 << 62);
	return used > sizeof(room) - 8192 - size ? NULL : hidden(size);
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t size) { return malloc(n * size); }
void *realloc(void *p, size_t size) { void *q = malloc(size); if (p && q) memcpy(q, p, size); return q; }
void *memalign(size_t align, size_t size) { (void)align; return malloc(size); }
void *aligned_alloc(size_t align, size_t size) { (void)align; return malloc(size); }
int posix_memalign(void **p, size_t align, size_t size) { (void)align; return !(*p = malloc(size)); }
"""
PROGRAM = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
sigjmp_buf out;
extern void *hidden(size_t) __attribute__((weak));
void *volatile kept;
static void handle(int number) { (void)number; kept = malloc(10); }
static void many(long n, size_t size) { for (long i = 0; i < n; i++) kept = malloc(size); }
static void *use(void *unused) { kept = malloc(20); return unused; }
static int down(int depth) { if (depth) { int n = down(depth - 1); __asm__ volatile("" ::: "memory"); return n; } kept = malloc(30); return 0; }
static void jail(int number)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {4, filter};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(9);
}
static void no_more_room(void)
{
	char text[8192] = "", *at;
	FILE *status = fopen("/proc/self/status", "r");
	fread(text, 1, sizeof(text) - 1, status);
	at = strstr(text, "VmSize:");
	rlim_t most = (at ? strtoul(at + 7, NULL, 10) : 0) * 1024 + (1 << 20);
	setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
}
int main(int argc, char **argv)
{
	const char *how = argv[1];
#define IS(word) (strcmp(how, word) == 0)
	signal(SIGUSR1, handle);
	many(3, 100);
	if (IS("nested_calls")) many(1, 4001);
	if (IS("abandoned_calls")) { if (sigsetjmp(out, 1) == 0) many(1, 4003); many(3, 10); }
	if (IS("missed_frees")) many(3, 4004);
	if (IS("unshadowed")) many(2, 4005);
	if (IS("unknown_frees")) { void *p = hidden(16); free(p); }
	if (IS("cut_stacks")) down(100);
	if (IS("mappings_full"))
		for (int i = 0; i < 1100; i++)
			mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (IS("seccomp")) jail(SYS_madvise);
	if (IS("stopped_seccomp")) { jail(SYS_madvise); many(2000000, 16); }
	if (IS("early_calls")) {
		pthread_t thread;
		jail(SYS_mremap);
		pthread_create(&thread, NULL, use, NULL);
		pthread_join(thread, NULL);
	}
	if (IS("stopped_no_memory")) { no_more_room(); many(2000000, 16); }
	if (IS("many")) many(250000, 16);
	if (IS("more")) many(1500000, 16);
	if (IS("child")) execl(argv[2], argv[2], (char *)NULL);
	return argc > 2 ? 3 : 0;
}
"""


@dataclasses.dataclass(frozen=True)
class Way:
    """How to lose: the program's first argument (its kind, else), the tool's options."""

    count: object  # a number, or a range
    words: str
    how: str = ""
    options: tuple = ()
    preload: bool = False
    status: int = 0


ANY = range(1, 1 << 40)
WAYS = {
    "nested_calls": Way(1, "1 call by a signal handler inside the allocator, not recorded",
                        preload=True),
    "abandoned_calls": Way(1, "1 call left by longjmp or cancellation", preload=True),
    "missed_frees": Way(2, "2 frees that no hook saw", preload=True),
    "unshadowed": Way(2, "2 blocks whose free cannot be told", preload=True),
    "unknown_frees": Way(1, "1 freed block whose allocation no hook saw", preload=True),
    "cut_stacks": Way(1, "1 stack that ends before its root", options=("--max-depth", "16")),
    "mappings_full": Way(range(70, 90), "mappings beyond the table"),
    "seccomp": Way(1, "1 seccomp filter that stops the ledger from growing"),
    "early_calls": Way(ANY, "before recording could start"),
    "stopped_seccomp": Way(1, "recording stopped: a seccomp filter forbids the ledger to grow"),
    "stopped_no_memory": Way(1, "recording stopped: no memory for the agent", preload=True),
    "stopped_ledger_limit": Way(1, "recording stopped at the limit for the ledger", "many",
                                ("--max-ledger", "1M")),
    "unrecorded": Way(ANY, "calls that could not be entered", "many", ("--max-ledger", "1M")),
    "blocks_not_listed": Way(range(249000, 250004), "live blocks not listed one by one", "many"),
}  # fmt: skip
# Not of the recording, but of what is written down of it.
QUIET = {"blocks_not_listed"}


@pytest.fixture
def lossy(cc):
    return cc("lossy", PROGRAM, "-O1", "-fno-builtin", "-fno-optimize-sibling-calls", "-w",
              "-Wl,--export-dynamic")  # fmt: skip


def losses(run, file):
    """{kind: (count, detail)} of all processes, by report --json."""
    report = json.loads(run("report", "--json", file).stdout)
    found = {one["kind"]: (one["count"], one["detail"])
             for process in report["processes"] for one in process["losses"]}  # fmt: skip
    unknown = sum(process["unknown_frees"] for process in report["processes"])
    return {**found, **({"unknown_frees": (unknown, None)} if unknown else {})}


def assert_said(run, file, words, summary=None):
    """Everywhere. summary: what the run printed."""
    views = [run(*view, file, text=True).stdout
             for view in (["report", "--summary"], ["report"], ["info"])]  # fmt: skip
    for text in [*views, *([summary] if summary else [])]:
        assert words in " ".join(text.split()), text


@pytest.mark.parametrize("kind", WAYS)
def test_each_loss_is_said(run, cc, lossy, sanitized, kind):
    way = WAYS[kind]
    before = []
    if way.preload:
        if sanitized:
            pytest.skip("a sanitizer must come first")
        library = cc("liblossy.so", LIBRARY, "-O1", "-fno-builtin", "-shared", "-fPIC", "-w")
        before = ["env", f"LD_PRELOAD={library}"]
    command = [*before, lossy, way.how or kind]
    assert subprocess.run(command).returncode == way.status
    result = run("-o", "x.mgp", *way.options, "--", *command, text=True)
    assert result.returncode == way.status
    found = losses(run, "x.mgp")
    count = found[kind][0]
    assert count in way.count if isinstance(way.count, range) else count == way.count
    if kind in QUIET:
        views = run("info", "x.mgp", text=True).stdout, run("blocks", "x.mgp", text=True).stdout
        assert way.words in " ".join(views[0].split())
        assert "not listed" in " ".join(views[1].split())
        assert ", complete" in " ".join(result.stderr.split())
    else:
        assert_said(run, "x.mgp", way.words, result.stderr)
        assert "not complete" in " ".join(result.stderr.split())
    assert found.keys() <= {kind, *ALSO.get(kind, ())}


# What comes with it.
ALSO = {
    "unshadowed": {"unknown_frees"},
    "early_calls": {"seccomp", "nested_calls"},
    "stopped_seccomp": {"seccomp", "unrecorded", "unshadowed", "blocks_not_listed", "unknown_frees"},
    "stopped_no_memory": {"unrecorded", "unshadowed", "blocks_not_listed"},
    "stopped_ledger_limit": {"unrecorded", "unshadowed"},
    "unrecorded": {"stopped_ledger_limit", "unshadowed"},
}


def test_a_ledger_whose_disk_is_full_is_said(mallograph, lossy, in_namespace, tmp_path):
    """stopped_file_full: without a collector, on a file system of 3 MiB."""
    result = in_namespace(
        'mkdir small && mount -t tmpfs -o size=3m none small && eval "$("$1" env)" && '
        'MALLOGRAPH_OUT=$PWD/small/x.mgl "$2" more; unset LD_PRELOAD; "$1" report --json small/x.mgl; '
        '"$1" report --summary small/x.mgl >&2; "$1" info small/x.mgl >&2',
        mallograph, lossy, env=os.environ, cwd=tmp_path)  # fmt: skip
    process = json.loads(result.stdout)["processes"][0]
    assert {"stopped_file_full", "unrecorded"} <= {one["kind"] for one in process["losses"]}
    assert " ".join(result.stderr.split()).count("recording stopped: no room left for the ledger") == 2


def test_a_call_that_death_cut_short_is_said(run, lossy, tmp_path):
    """In the middle of one is where few deaths come: as if it had been."""
    run("-q", "-o", "x.mgl", lossy, "nothing")
    (process,) = Ledger(tmp_path / "x.mgl").processes
    process.slots[0].op += 1
    assert losses(run, "x.mgl") == {"unfinished_calls": (1, None)}
    assert_said(run, "x.mgl", "1 call that had begun and not ended")


def test_a_damaged_ledger_is_said(run, lossy, tmp_path):
    run("-q", "-o", "x.mgl", lossy, "nothing")
    (process,) = Ledger(tmp_path / "x.mgl").processes
    process.header.modules = 0x7FFFFFF0
    process.data.flush()
    assert losses(run, "x.mgl") == {"damaged": (1, "the list of modules")}
    assert_said(run, "x.mgl", "1 thing in the ledger that makes no sense (the list of modules)")


def test_libraries_that_call_malloc_unseen_are_named(run, cc):
    """deepbind, where other threads run so that nothing can be changed: how many, and the first."""
    library = cc("libunseen.so", "#include <stdlib.h>\nvoid *take(int n) { return malloc(n); }\n",
                 "-shared", "-fPIC", "-fno-builtin")  # fmt: skip
    other = cc("libunseen_too.so", "int nothing;\n", "-shared", "-fPIC")
    program = cc("opens", r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *waits(void *unused) { pause(); return unused; }
int main(int argc, char **argv)
{
	pthread_t thread;
	pthread_create(&thread, NULL, waits, NULL);
	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW | RTLD_DEEPBIND);
		void *(*take)(int) = (void *(*)(int))dlsym(library, "take");
		for (int n = 0; take && n < 10; n++)
			if (!take(100)) return 3;
	}
	return 0;
}""")
    result = run("-o", "x.mgp", program, library, other, text=True)
    assert result.returncode == 0
    assert losses(run, "x.mgp") == {"deepbind": (2, str(library))}
    assert_said(run, "x.mgp", f"2 libraries opened with RTLD_DEEPBIND, which call malloc unseen "
                              f"(first: {library})", result.stderr)  # fmt: skip


def test_libraries_of_other_namespaces_are_said(run, tmp_path):
    """dlmopen: where the loader has no lists of them (before glibc 2.35)."""
    assert run("-q", "-o", "x.mgl", "true").returncode == 0
    (process,) = Ledger(tmp_path / "x.mgl").processes
    at, _ = process.header.places["losses"]
    struct.pack_into("<Q", process.data, process.header.at + at + 8 * LOSSES.index("dlmopen"), 2)
    process.data.flush()
    assert losses(run, "x.mgl") == {"dlmopen": (2, None)}
    assert_said(run, "x.mgl", "2 libraries opened by dlmopen, which call malloc unseen")


def test_what_was_asked_to_be_left_out_is_no_loss(run, lossy):
    result = run("-o", "x.mgp", "--not", "uname", "sh", "-c", "uname >/dev/null; true", text=True)
    assert result.returncode == 0
    assert losses(run, "x.mgp") == {"left_out": (1, None)}
    words = " ".join(result.stderr.split())
    assert "1 process left out as asked" in words and "not complete" not in words


@pytest.mark.slow
def test_small_changes_that_are_left_out_are_said(run, build):
    """series_thinned: of a million small changes of many sites the time lines have the large."""
    result = run("-q", "-o", "x.mgp", build / "bench" / "sites", "30000", "20000000", "1000", "9",
                 text=True, timeout=120)  # fmt: skip
    assert result.returncode == 0
    assert losses(run, "x.mgp").keys() == {"series_thinned"}
    words = " ".join(run("info", "x.mgp", text=True).stdout.split())
    assert "small changes left out of the sites' time lines" in words
