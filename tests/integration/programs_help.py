"""Programs as they are installed: run, recorded, and counted by another library in the same run."""

import os
import shutil
import struct
import subprocess

import pytest

from oracle import report, wait_for

# The hash seed decides how much Python allocates.
FIXED = {"PYTHONHASHSEED": "0", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}

# As tests/programs/count_preload.c has them.
COUNTS = ("allocations", "frees", "failed", "allocated_bytes", "live_blocks", "live_bytes")
FUNCTIONS = ("malloc", "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc",
             "posix_memalign", "valloc", "pvalloc")  # fmt: skip


def need(*commands):
    """Where they are. Where CI has no such program the test fails: tools/packages lacks a line."""
    path = os.environ["PATH"] + ":/usr/sbin"
    for command in commands:
        if shutil.which(command, path=path) is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{command} is not installed")
    return [shutil.which(command, path=path) for command in commands]


def run(command, place, drive=None, **env):
    """The finished process. drive(process) is told when it has begun, and what it returns comes
    back as `heard`."""
    with subprocess.Popen(
        [str(a) for a in command],
        cwd=place,
        env={**os.environ, **FIXED, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            heard = drive(process) if drive else None
            out, err = process.communicate(timeout=120)
        except BaseException:
            process.kill()
            raise
    answer = subprocess.CompletedProcess(command, process.returncode, out, err)
    answer.heard = heard
    return answer


def recorded(record, command, place, drive=None, **env):
    ledger = record.new_paths()[0]
    answer = run([record.tool, "-q", "-o", ledger, "--", *command], place, drive, **env)
    return answer, report(record.tool, ledger)


def counted(path):
    """What the counting library says: counts, and allocations by the function called."""
    words = struct.unpack("<16Q", path.read_bytes()[:128])
    assert words[6] == 0, "the counting library saw frees of blocks that it had not seen"
    functions = {name: count for name, count in zip(FUNCTIONS, words[7:]) if count}
    return dict(zip(COUNTS, words)), functions


def counted_run(record, command, place, drive=None):
    """(answer, profile, process): recorded with the counting library between agent and allocator,
    so that both see the same calls; they agree."""
    library, counts = record.library("count_preload"), place / "counts"
    # By env, or the tool itself would be counted.
    before = ["env", f"LD_PRELOAD={library}", f"COUNT_OUT={counts}"]
    answer, profile = recorded(record, [*before, *command], place, drive)
    expected, by_function = counted(counts)
    process = profile.processes[1]
    assert process["how"] == "exec"
    assert not {"early_calls", "unrecorded", "missed_frees"} & set(profile.losses(process))
    assert {key: process[key] for key in expected} == expected
    found = {}
    for site in profile.sites_of(process):
        name = site["function_called"]
        found[name] = found.get(name, 0) + site["allocations"]
    assert {name: count for name, count in found.items() if count} == by_function
    return answer, profile, process


def assert_plausible(process, sites):
    """Totals that hang together."""
    assert process["allocations"] >= process["frees"] > 0
    assert process["peak_bytes"] + process["peak_error_bytes"] >= process["live_bytes"] >= 0
    assert process["allocated_bytes"] >= process["peak_bytes"] > 0
    assert process["unknown_frees"] == 0
    for key in ("allocations", "frees", "allocated_bytes", "live_blocks", "live_bytes"):
        assert sum(site[key] for site in sites) == process[key]


def wait_for_socket(path, process):
    """Until somebody listens there; a server that ended instead will not."""
    def listens():
        assert process.poll() is None, process.stderr.read()
        return path.exists()

    wait_for(listens)
