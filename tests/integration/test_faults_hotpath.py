"""Faults that prototypes and other profilers had, each kept away by a test."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import time

import pytest

from oracle import (
    PEAK,
    SITE_TOTALS,
    TOTALS,
    Report,
    peak,
    read_said,
    report,
    session_of,
    stack_functions,
    totals,
    wait_for,
)

# --- signals -----------------------------------------------------------------------


def test_longjmp_out_of_hooks_does_not_end_recording(record):
    run = record.run("signals", "jump", 100000)
    assert run.said["jumps"] >= 300
    sums = run.report.by_function(run.root)
    calm = {key: sums["calm"][key] for key in SITE_TOTALS}
    assert calm == run.said.only(SITE_TOTALS)
    # What a jump took with it is one call each, recorded or not.
    jumps = run.said["jumps"]
    for key in ("allocations", "frees"):
        assert abs(sums["in_storm"][key] - run.said["stormed"]) <= jumps
    assert abs(run.root["peak_bytes"] - run.said["peak_bytes"]) <= 128 * (jumps + 1)
    assert run.report.losses(run.root)["abandoned_calls"] > 0
    assert run.root["live_blocks"] >= 50000


def test_handlers_that_allocate_in_a_storm(record):
    run = record.run("signals", "nested", 300000)
    sums = run.report.by_function(run.root)
    assert {key: sums["calm"][key] for key in SITE_TOTALS} == run.said.only(SITE_TOTALS)
    assert sums["in_storm"]["allocations"] == sums["in_storm"]["frees"] == run.said["stormed"]
    handled = sums.get("in_handler", {"allocations": 0, "frees": 0})
    passed_by = run.report.losses(run.root).get("nested_calls", 0)
    assert handled["allocations"] <= run.said["nested"]
    assert handled["frees"] == handled["allocations"]
    # A handler that comes while a hook is on its way into the C library is passed by.
    assert handled["allocations"] + passed_by / 2 >= 0.9 * run.said["nested"]


@pytest.mark.parametrize("run_number", range(5))
def test_first_use_under_a_signal_storm(record, run_number):
    """A timer of 20 µs that runs before anything else does, its handler allocating."""
    signals = record.folder / "signals"
    # By env: the tool itself would not bear the storm.
    before = ("env", f"LD_PRELOAD={record.library('early_timer')}", f"EARLY_TIMER_OUT={signals}")
    run = record.run("oracle_mix", run_number, 20000, 1, before=before)
    process = run.report.processes[-1]
    assert process["pid"] == run.said.pid
    own = run.report.of_program(process)
    keys = ("allocations", "frees", "allocated_bytes", "live_blocks", "live_bytes")
    assert {k: own[k] for k in keys} == run.said.only(keys)
    assert process["failed"] == run.said["failed"]
    assert len(signals.read_bytes()) >= 1
    assert run.report.losses(process).get("early_calls", 0) < 50


@pytest.mark.parametrize("threads", [2, 8])
def test_every_thread_in_a_storm_of_its_own(record, threads):
    run = record.run("thread_storm", threads, 100000)
    sums = run.report.by_function(run.root)
    keys = ("allocations", "frees", "allocated_bytes", "live_blocks", "live_bytes")
    assert {key: sums["in_thread"][key] for key in keys} == run.said.only(keys)
    if run.said["handled"]:
        assert sums["in_handler"]["live_blocks"] == 0
    assert run.root["unknown_frees"] == 0
    assert set(run.report.losses(run.root)) <= {"nested_calls"}


def test_loader_and_throws_and_allocations_at_once(record):
    """No lock of the agent's is below the loader's, nor above: this ends, and nothing is lost."""
    libraries = record.library("plugin_a"), record.library("plugin_b")
    run = record.run("loader_lock", *libraries, 20000)
    sums = run.report.by_function(run.root)
    for name, numbers in run.said.rows("site"):
        keys = ("allocations", "frees", "allocated_bytes")
        assert [sums[name][key] for key in keys] == numbers, name
    assert run.root["unknown_frees"] == 0
    assert run.root["losses"] == []


# --- stacks --------------------------------------------------------------------------


def sites_in(run, function):
    return [s for s in run.report.sites_of(run.root) if function in stack_functions(s)]


def program_functions(run, site):
    named = zip(stack_functions(site), site["stack"])
    return [function for function, frame in named if frame["module"] == run.root["exe"]]


def assert_rooted(functions):
    assert functions[-2:] == ["main", "_start"]


MISALIGNED = """
#include <stdlib.h>
static void *call(void *function, size_t argument)
{
	void *result;

	__asm__ volatile("mov %%rsp, %%rbx; and $-16, %%rsp; sub $8, %%rsp; call *%2; mov %%rbx, %%rsp"
			 : "=a"(result), "+D"(argument)
			 : "r"(function)
			 : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	return result;
}
int main(void)
{
	for (size_t i = 0; i < 1000; i++) {
		void *block = call((void *)malloc, i);

		if (i % 2)
			call((void *)free, (size_t)block);
	}
	return 0;
}
"""


def test_a_stack_that_is_not_aligned(run, mallograph, cc, tmp_path):
    """glibc's malloc does not mind, so some programs do not know."""
    program = cc("misaligned", MISALIGNED, "-O1", "-fno-builtin", "-mno-red-zone")
    if subprocess.run([program]).returncode:
        pytest.skip("this C library minds")
    assert run("-q", "-o", "a.mgl", program).returncode == 0
    root = json.loads(subprocess.run([mallograph, "report", "--json", tmp_path / "a.mgl"],
                                     check=True, capture_output=True).stdout)["processes"][0]
    assert (root["allocations"], root["frees"], root["losses"]) == (1000, 500, [])


GROWING = """
#include <pthread.h>
#include <stdlib.h>
static void *volatile kept;
__attribute__((noinline)) static void deeper(int left, int each)
{
	if (left == 0 || (each && left < 100))
		kept = malloc(16);
	if (left > 0)
		deeper(left - 1, each);
	__asm__ volatile("" ::: "memory");
}
static void *thread(void *each)
{
	deeper(1080, each != NULL);
	return NULL;
}
int main(void)
{
	for (char *each = NULL; each < (char *)2; each++) {
		pthread_t id;

		if (pthread_create(&id, NULL, thread, each) == 0)
			pthread_join(id, NULL);
	}
	return 0;
}
"""


def test_a_stack_too_deep_is_the_same_site_whatever_came_before(run, mallograph, cc, tmp_path):
    run("-q", "-o", "a.mgl", cc("growing", GROWING, "-O1", "-lpthread"))
    report = json.loads(subprocess.run(
        [mallograph, "report", "--json", "--sites", "all", tmp_path / "a.mgl"],
        check=True, capture_output=True).stdout)
    sites = [site for site in report["sites"] if site["sizes"][0][:2] == [16, 20]]
    deep = [site["allocations"] for site in sites if len(site["stack"]) > 1024]
    assert len(sites) - 1 + sum(deep) == 101
    assert len(deep) == 1


@pytest.mark.parametrize("depth", [5, 62, 63, 64, 65, 100, 500])
def test_deep_stacks_are_whole(record, depth):
    run = record.run("depth", depth)
    (site,) = sites_in(run, "made")
    assert program_functions(run, site) == ["made"] + ["deeper"] * (depth + 1) + ["main", "_start"]
    assert "cut_stacks" not in run.report.losses(run.root)


def test_a_cut_is_marked(record):
    """200,000 frames: however many are kept, the rest is told."""
    run = record.run("depth", 90000)
    assert totals(run.root) == run.said.only(TOTALS)
    (site,) = sites_in(run, "made")
    functions = program_functions(run, site)
    assert functions[:2] == ["made", "deeper"]
    if functions[-1] != "_start":
        assert run.report.losses(run.root)["cut_stacks"] == 1
        assert len(functions) > 1000


@pytest.mark.parametrize("way", ["frame", "jit"])
def test_frames_without_cfi_are_stepped_over(record, way):
    run = record.run("depth", 30, way)
    (site,) = sites_in(run, "made")
    functions = program_functions(run, site)
    assert functions[0] == "made"
    assert functions.count("deeper") == 31
    assert_rooted(functions)
    if way == "jit":
        assert any(frame["module"] is None for frame in site["stack"])


@pytest.mark.parametrize("way", ["bare", "jit_bare"])
def test_frames_that_lie_about_rbp_cut_the_stack_at_worst(record, way):
    run = record.run("depth", 30, way)
    assert run.report.of_program(run.root)["allocations"] == run.said["allocations"]
    assert run.root["allocated_bytes"] == run.said["allocated_bytes"]
    for site in sites_in(run, "made"):
        functions = program_functions(run, site)
        assert functions[0] == "made"
        # Either the whole truth or a cut: never a stack that goes on somewhere else.
        if functions[-1] != "_start":
            assert run.report.losses(run.root)["cut_stacks"] > 0


def test_reloaded_libraries(record):
    """Two libraries at one address with frames of different sizes, opened in turn."""
    a, b = record.library("plugin_a"), record.library("plugin_b")
    run = record.run("reload", a, b, 40)
    assert run.said["same_place"] > 60
    for path, function in ((a, "from_a"), (b, "from_b")):
        sites = [s for s in run.report.sites_of(run.root) if s["stack"][0]["module"] == str(path)]
        assert sum(s["allocations"] for s in sites) == 120
        assert sum(s["frees"] for s in sites) == 120
        for site in sites:
            functions = stack_functions(site)
            assert functions[:4] == [function, "plugin_make", "use", "main"]
            assert functions[-1] == "_start"


def test_stacks_that_are_gone(record):
    """Fibers and alternate signal stacks that are unmapped while they are remembered."""
    run = record.run("fibers", 300)
    assert totals(run.root) == run.said.only(TOTALS)
    assert peak(run.root) == run.said.only(PEAK)
    assert {f for s in sites_in(run, "make") for f in program_functions(run, s)[1:2]} == {
        "in_fiber",
        "in_main",
        "on_signal",
    }


# --- every way in ----------------------------------------------------------------------


def test_every_way_in_c(record):
    run = record.run("ways")
    for called, (function, size) in run_ways(run.said):
        sites = sites_in(run, function)
        assert {s["function_called"] for s in sites} == {called}
        assert summed(sites) == (2, 1, 2 * size, size, 1)
    assert run.root["mapped_bytes"] >= run.said["mapped"]
    assert run.root["mapped_bytes"] < run.said["mapped"] + (1 << 20)
    assert totals(run.root)["allocations"] == 18


def summed(sites):
    keys = ("allocations", "frees", "allocated_bytes", "live_bytes", "temporary")
    return tuple(sum(s[key] for s in sites) for key in keys)


def run_ways(said):
    return [(line[1], (line[2], int(line[3]))) for line in said.lines if line[0] == "way"]


def assert_every_new(record, env, expected):
    run = record.run("ways_new", env=env)
    ways = run_ways(run.said)
    assert len(ways) == 12
    for form, (function, size) in ways:
        sites = sites_in(run, function)
        assert {s["function_called"] for s in sites} == {expected(form)}, function
        assert summed(sites) == (2, 1, 2 * size, size, 1), function
    assert run.root["unknown_frees"] == 0


def test_every_new_of_libstdcxx(record):
    """Seen as the malloc it calls."""

    def called(form):
        return "aligned_alloc" if "aligned" in form else "malloc"

    assert_every_new(record, {}, called)


@pytest.mark.parametrize(
    "library", ["libjemalloc.so.2", "libmimalloc.so.2", "libtcmalloc_minimal.so.4"]
)
def test_every_new_of_allocators_with_their_own(record, library):
    if record.native("ways_new", env={"LD_PRELOAD": library}) == []:
        pytest.skip(f"{library} is not here")
    assert_every_new(record, {"LD_PRELOAD": library}, lambda form: form.replace("_", " "))


# --- what must not disturb the target -----------------------------------------------------


def test_a_static_program_is_refused_at_once(record):
    if record.program("small_static") == "small_static":
        pytest.skip("nothing can be linked statically here")
    began = time.monotonic()
    answer = subprocess.run(
        [record.tool, "--", record.program("small_static"), record.folder / "said"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert answer.returncode == 125
    assert "static" in answer.stderr
    assert time.monotonic() - began < 5
    assert not (record.folder / "said").exists()


STEPS = ("make:100:64", "wait", "tree:20000", "churn:1000", "say")


def assert_recorded(root):
    assert root["allocations"] == 100 + 20000 + 1000
    assert root["live_bytes"] == 100 * 64 + 20000 * 40
    assert root["losses"] == []


def test_a_dead_tool_is_never_noticed(record):
    tool, ledger, said_path = record.start("script", *STEPS, stdin=subprocess.PIPE)
    record.ready(said_path)
    pid = child_of(tool.pid)
    session = session_of(tool.pid)
    tool.kill()
    tool.wait(10)
    tool.stdin.write(b"\n")
    tool.stdin.close()
    wait_for(lambda: "live_bytes" in said_path.read_text())
    wait_for(lambda: not alive(pid))
    assert not ledger.exists()
    root = report(record.tool, session, 0).root
    session.unlink()
    assert_recorded(root)


def test_a_tool_that_stands_still_is_never_noticed(record):
    tool, ledger, said_path = record.start("script", *STEPS, stdin=subprocess.PIPE)
    record.ready(said_path)
    os.kill(tool.pid, signal.SIGSTOP)
    tool.stdin.write(b"\n")
    tool.stdin.close()
    wait_for(lambda: "live_bytes" in said_path.read_text())
    os.kill(tool.pid, signal.SIGCONT)
    assert tool.wait(20) == 0
    assert_recorded(report(record.tool, ledger, 0).root)


def test_a_tool_out_of_memory_is_never_noticed(record):
    """From now on nothing it asks for is given; what it does then is its own affair."""
    tool, _, said_path = record.start(
        "script", *STEPS, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    record.ready(said_path)
    pid = child_of(tool.pid)
    session = session_of(tool.pid)
    resource.prlimit(tool.pid, resource.RLIMIT_AS, (1, 1))
    tool.stdin.write(b"\n")
    tool.stdin.close()
    wait_for(lambda: "live_bytes" in said_path.read_text())
    wait_for(lambda: not alive(pid))
    tool.wait(20)
    assert read_said(said_path)[-1]["allocations"] == 100 + 20000 + 1000
    session.unlink(missing_ok=True)


def child_of(pid):
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return int(path.read_text().split()[0])


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_full_ledger_is_told(record):
    """--max-ledger reached: the target goes on, and the report says what is missing."""
    run = record.run("script", "tree:200000", "say", options=["--max-ledger", "8M"])
    assert run.said["allocations"] == 200000
    losses = Report.losses(run.root)
    assert run.root["allocations"] + losses["unrecorded"] == 200000
    assert run.root["ledger_bytes"] <= 10 << 20


def test_out_of_address_space(record):
    """The target has room for itself; the agent does not, and says so."""
    run = record.run("script", "as:25000000", "tree:60000", "say")
    assert run.said["allocations"] == 60000
    losses = Report.losses(run.root)
    assert run.root["allocations"] + losses.get("unrecorded", 0) == 60000


def test_a_stack_almost_too_small(record):
    """The smallest stack a thread may have bears a hook."""
    run = record.run("script", "stack:16384", "make:100:50", "churn:100", "say")
    assert run.said["allocations"] == 200
    assert run.report.of_program(run.root)["allocations"] == 200


def test_signals_reach_the_target_only(record):
    tool, _, said_path = record.start("deaths", "wait", start_new_session=True)
    record.ready(said_path)
    os.killpg(tool.pid, signal.SIGINT)
    assert tool.wait(20) == -signal.SIGINT


LEAK_SANITIZED = """
#include <stdlib.h>
int main(void)
{
	for (int i = 0; i < 10; i++) {
		void *volatile p = malloc(100);

		if (realloc(p, 0) != NULL)
			return 3;
	}
	return 0;
}
"""


def test_the_leak_sanitizers_realloc_to_nothing_frees(mallograph, agent, cc, tmp_path, may_preload):
    """It returns NULL and sets ENOMEM, like a failure. The tool refuses such programs; whoever
    preloads the agent by hand is counted right."""
    try:
        program = cc("leaks", LEAK_SANITIZED, "-fsanitize=leak", "-fno-builtin", "-w")
    except subprocess.CalledProcessError:
        pytest.skip("no leak sanitizer")
    if subprocess.run([program], capture_output=True).returncode:
        pytest.skip("the leak sanitizer does not run here")
    env = {"LD_PRELOAD": str(agent), "MALLOGRAPH_OUT": str(tmp_path / "leaks.mgl")}
    result = subprocess.run([program], env={**os.environ, **env}, capture_output=True)
    assert result.returncode == 0, result.stderr
    seen = report(mallograph, tmp_path / "leaks.mgl")
    main = seen.by_function(seen.root)["main"]
    assert (main["allocations"], main["frees"]) == (10, 10)
    assert seen.root["failed"] == 0
    assert seen.root["losses"] == []
