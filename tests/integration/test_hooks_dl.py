"""dlopen, dlmopen and dlclose: what the loader does with its caller stays, what the preload
cannot see is said."""

import os
import shutil
import subprocess

import pytest

import oracle


@pytest.fixture
def compare(mallograph, program, tmp_path):
    """opener STEP… bare and recorded: same output. The report."""

    def run(*steps, env=None):
        command = [str(program("opener")), *map(str, steps)]
        env = {**os.environ, **(env or {})}
        ledger = tmp_path / "compare.mgl"
        bare = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
        done = subprocess.run(
            [mallograph, "-q", "-o", ledger, "--", *command],
            env=env, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.stdout.decode() == bare.stdout.decode()
        assert (done.stderr, done.returncode) == (b"", 0)
        return done.stdout.decode().splitlines(), oracle.report(mallograph, ledger)

    return run


@pytest.fixture
def library(build):
    return lambda name: build / "tests" / "programs" / f"lib{name}.so"


def losses(report):
    return {loss["kind"]: (loss["count"], loss["detail"]) for loss in report.root["losses"]}


def test_a_librarys_own_runpath_finds_what_it_opens(compare, library, tmp_path):
    (tmp_path / "inner").mkdir()
    shutil.copy(library("outer"), tmp_path)
    shutil.copy(library("inner"), tmp_path / "inner")
    lines, report = compare(f"open:{tmp_path}/libouter.so", "close")
    assert lines == ["answer 42", "close 0"]
    assert losses(report) == {}


def test_a_missing_library_is_missing_as_ever(compare):
    lines, _ = compare("open:/nowhere/libnothing.so", "open:libnothing-at-all.so")
    assert len(lines) == 2
    assert all("cannot open shared object file" in line for line in lines)


def allocations_of(report, library):
    """Of answer(), which the library has: one a call, and freed."""
    ours = report.by_function(report.root, library).get("answer", {"allocations": 0, "frees": 0})
    assert ours["allocations"] == ours["frees"]
    return ours["allocations"]


@pytest.mark.parametrize("how", ["deep", "space"])
def test_libraries_that_call_malloc_past_us_are_seen(compare, library, how):
    """Those opened with RTLD_DEEPBIND or by dlmopen find the C library's own, which is changed."""
    inner = library("inner")
    lines, report = compare(f"{how}:{inner}", "close", f"{how}:{inner}", f"open:{inner}")
    assert lines == ["answer 42", "close 0", "answer 42", "answer 42"]
    assert losses(report) == {}
    assert allocations_of(report, inner) == 3


def test_another_preloaded_librarys_rtld_next_finds_what_follows_it(
    compare, library, tmp_path, may_preload
):
    """count_preload counts malloc by dlsym(RTLD_NEXT): both see the same."""
    counts = tmp_path / "counts"
    env = {"LD_PRELOAD": str(library("count_preload")), "COUNT_OUT": str(counts)}
    lines, report = compare(f"open:{library('inner')}", "close", env=env)
    assert lines == ["answer 42", "close 0"]
    assert losses(report) == {}
    seen = int.from_bytes(counts.read_bytes()[:8], "little")
    assert seen > 0
    assert abs(seen - report.root["allocations"]) <= 40


def sites_by_function(report, module):
    """Allocations by function called, of stacks that start in the module."""
    found = {}
    for site in report.sites:
        frames = [frame["module"] for frame in site["stack"]]
        if str(module) in frames[:3]:
            key = site["function_called"]
            old = found.get(key, (0, 0, 0))
            found[key] = (
                old[0] + site["allocations"],
                old[1] + site["frees"],
                old[2] + site["allocated_bytes"],
            )
    return found


@pytest.mark.parametrize("first", ["own_new", "std_new"])
def test_each_plugin_reaches_its_own_operator_new(compare, library, first):
    """A C program without operator new: what a call means depends on who calls."""
    own, std = library("own_new"), library("std_new")
    order = [own, std] if first == "own_new" else [std, own]
    lines, report = compare(*(f"open:{path}" for path in order))
    assert lines == (["answer 1", "answer 2"] if first == "own_new" else ["answer 2", "answer 1"])
    assert sites_by_function(report, own) == {"new": (3, 2, 3000), "new[]": (1, 1, 3000)}
    by_std = sites_by_function(report, std)
    assert set(by_std) == {"malloc"}
    assert by_std["malloc"][0] == by_std["malloc"][1] > 50
    assert report.root["unknown_frees"] == 0


def test_a_plugin_that_comes_again_is_looked_up_again(compare, library):
    """Unloaded and loaded, another in its place: no route of the old one is taken."""
    own, std = library("own_new"), library("std_new")
    steps = []
    for _ in range(5):
        steps += [f"open:{own}", "close", f"open:{std}", "close"]
    lines, report = compare(*steps)
    assert lines == ["answer 1", "close 0", "answer 2", "close 0"] * 5
    assert report.root["unknown_frees"] == 0
