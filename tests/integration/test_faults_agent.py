"""System calls of the agent that fail, each in turn: the program runs as ever, and what was not
recorded is told."""

import os
import subprocess

import pytest

from oracle import PEAK, TOTALS, Recorder, read_said, report

PROGRAMS = {
    "mix": ("oracle_mix", 1, 1500, 1),
    "threads": ("threads", "turn", 12),
    "forks": ("forks", "fork", 3),
    "growth": ("live_blocks", 60000, 1000),
}
# Which say what they do in their own code; threads have blocks of the C library's, too.
IN_PART = {"threads"}
CALLS = ("mmap", "mremap", "munmap", "mprotect", "madvise", "open", "read", "fstat", "readlink",
         "getcwd", "getrlimit", "prctl", "other")  # fmt: skip
MOST = 400  # of one kind; a program of these makes far fewer


@pytest.fixture
def faulty(build, tmp_path, sanitized):
    if sanitized:
        pytest.skip("a sanitizer must come first")
    recorder = Recorder(build, tmp_path, sanitized)
    recorder.tool = build / "tests" / "faults" / "mallograph"
    return recorder


def words_of(said):
    """What processes say they did."""
    return sorted([one.counts.get(key, 0) for key in (*TOTALS, *PEAK)] for one in said)


def is_told(processes):
    return any(process["losses"] or process["unknown_frees"] for process in processes)


def is_exact(process, one, in_part):
    if in_part:
        return process["allocations"] >= one["allocations"] and process["frees"] >= one["frees"]
    return all(process[key] == one[key] for key in TOTALS if key in one.counts)


def assert_true_or_told(recorder, profile, said, in_part):
    """Each process is exact, or it is told that something is not; or its own absence is."""
    processes = report(recorder.tool, profile, sites=0).processes
    by_pid = {process["pid"]: process for process in processes}
    for one in said:
        process = by_pid.get(one.pid)
        exact = process and is_exact(process, one, in_part)
        assert exact or is_told(processes), (one.pid, one.counts, processes)


def run_one(recorder, fault, name, *args):
    """Whether the fault came to be."""
    profile, said = (path.with_suffix(f".{i}") for i, path in enumerate(recorder.new_paths()))
    profile = profile.with_suffix(".mgp")
    answer = subprocess.run(
        [recorder.tool, "-o", profile, recorder.program(name), said, *map(str, args)],
        env={**os.environ, "FAULT_AGENT": fault}, capture_output=True, text=True, timeout=120,
        check=False)
    told = answer.stderr.replace("fault: refused\n", "")
    assert answer.returncode == 0, (fault, told)
    counts = read_said(said)
    if profile.exists():
        assert_true_or_told(recorder, profile, counts, name in IN_PART)
    else:
        assert "nothing was recorded" in " ".join(told.split()), (fault, told)
    profile.unlink(missing_ok=True)
    return "fault: refused" in answer.stderr, words_of(counts)


def places(most):
    """1, 2, 3 … and then ever further apart: late ones are like each other."""
    at = 1
    while at <= most:
        yield at
        at += 1 + at // 8


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("call", CALLS)
def test_each_in_turn(faulty, program, call):
    name, *args = PROGRAMS[program]
    native = words_of(faulty.native(name, *args))
    ever = False
    for at in places(MOST):
        one, said = run_one(faulty, f"{call}:{at}", name, *args)
        if not one:
            break
        ever = True
        assert said == native, f"{call}:{at}"
        rest, said = run_one(faulty, f"{call}:{at}+", name, *args)
        assert rest and said == native, f"{call}:{at}+"
    if call in ("mmap", "madvise", "open"):
        assert ever
