"""Stacks of every kind, frame by frame. What shows which kind of frame:

    by rsp, by rbp              test_every_kind_of_frame; unit unwind-cross: shapes
    PLT                         unit unwind-cross: every instruction
    *(rbp - k), DRAP            test_every_kind_of_frame; unit unwind-cross: shapes; agent-rules
    expressions, clobbered      test_every_kind_of_frame; unit unwind-cross: odd rows; agent-expressions
    signals, alternate stacks   test_every_kind_of_frame; unit unwind-cross: signals
    hand-written assembly       test_every_kind_of_frame; test_faults_hotpath.py: without CFI
    code made at run time       test_every_kind_of_frame; unit unwind-cross: made code
    vdso                        test_every_kind_of_frame; unit unwind-cross: every instruction
    roots: program, thread      test_every_kind_of_frame
    fibers, stacks gone         test_every_kind_of_frame; test_faults_hotpath.py: stacks that are gone
    10,000 deep                 test_ten_thousand_calls; unit unwind-cross: depth
    longjmp                     test_every_kind_of_frame; test_faults_hotpath.py: out of hooks
    exceptions                  test_every_kind_of_frame; unit unwind-cross: exceptions
    tail calls, noreturn ends   test_every_kind_of_frame; unit unwind-cross: shapes
    Go, from C's stack to its own  test_callers_in_go
    another library at a place  test_faults_hotpath.py: reloaded; unit unwind-cross: reload
    no _dl_find_object          test_plain.py; unit unwind-cross-plain

And test_xcheck.py compares them all, and programs of many kinds, with libunwind.
"""

import collections
import os
import pathlib
import re
import subprocess

import pytest

import oracle
from programs_help import need

CALLERS = pathlib.Path(__file__).parents[1] / "programs/languages/callers.go"


def label(run, frame):
    if frame["module"] is None:
        return "made_code" if frame["offset"] is not None else "cut"
    if frame["module"] != run.root["exe"]:
        return "library"
    return re.sub(r"\(.*\)|.*::", "", frame["function"])


def shape(run, site):
    """The stack as the program says it: libraries' frames in a row are one."""
    labels = [label(run, frame) for frame in site["stack"]]
    return tuple(x for x, before in zip(labels, ["", *labels])
                 if (x, before) != ("library", "library"))


def made(run):
    """{stack: blocks}"""
    found = collections.Counter()
    for site in run.report.sites_of(run.root):
        if site["stack"][0]["function"] == "made":
            found[shape(run, site)] += site["allocations"]
    return dict(found)


def test_every_kind_of_frame(record):
    run = record.run("frames")
    expected = {tuple(frames): int(blocks) for _, blocks, *frames in run.said.lines}
    assert len(expected) > 20
    assert made(run) == expected
    assert "cut_stacks" not in run.report.losses(run.root)


@pytest.mark.parametrize("kept, options", [
    (1024, []), (16, ["--max-depth", "16"]), (9000, ["--max-depth=9000"]),
])
def test_ten_thousand_calls(record, kept, options):
    """Half of the frames kept are from inside, half from outside, and the cut is marked."""
    run = record.run("depth", 10000, options=options)
    ((frames, blocks),) = made(run).items()
    outer = ("main", "library", "_start")
    libraries = len([f for f in run.report.sites[0]["stack"] if label(run, f) == "library"])
    assert blocks == 1
    deeper = ["deeper"] * (kept // 2)
    assert frames == ("made", *deeper[1:], "cut", *deeper[libraries + 2:], *outer)
    assert run.report.losses(run.root)["cut_stacks"] == 1


@pytest.mark.slow
def test_callers_in_go(record, tmp_path):
    """C runs on a stack of its own; the goroutine that called it is on another."""
    settings = {"GO111MODULE": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "1",
                "GOCACHE": str(tmp_path / "cache")}  # fmt: skip
    subprocess.run([*need("go"), "build", "-o", tmp_path / "callers", CALLERS], check=True,
                   env={**os.environ, **settings})  # fmt: skip
    ledger = tmp_path / "go.mgp"
    subprocess.run([record.tool, "-q", "-o", ledger, tmp_path / "callers", "50"], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    found = collections.Counter()
    profile = oracle.report(record.tool, ledger)
    for site in profile.sites:
        functions = [frame["function"] for frame in site["stack"]]
        if functions[-1] == "runtime.goexit":
            found.update({f: site["allocations"] for f in functions if f.startswith("main.")})
    assert found["main.keep"] == found["main.main"] == 100
    assert found["main.lengths"] == found["main.produce"] == 4 * 50
    assert found["main.main.func2"] == 8 * 50
    assert profile.losses(profile.root) == {}
