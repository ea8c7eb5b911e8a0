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
    program headers that were moved  test_a_library_whose_headers_were_moved
    another library at a place  test_faults_hotpath.py: reloaded; unit unwind-cross: reload
    no _dl_find_object          test_plain.py; unit unwind-cross-plain

And test_xcheck.py compares them all, and programs of many kinds, with libunwind.
"""

import collections
import os
import pathlib
import re
import struct
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


MOVED = """
#include <stdlib.h>
void *made(int depth);
__attribute__((noinline)) void *made(int depth)
{
	void *p = depth ? made(depth - 1) : malloc(100);
	__asm__ volatile("" : : "r"(p) : "memory");
	return p;
}
"""
MOVED_CALLER = "void *made(int); int main(void) { return made(5) == 0; }"


def move_headers(path, lies=0):
    """As BOLT and patchelf do it: the program headers go into a segment of their own at the end,
    whose address is its offset."""
    data = bytearray(path.read_bytes())
    offset, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    headers = [data[offset + 56 * i:offset + 56 * (i + 1)] for i in range(count)]
    headers = [header for header in headers if header[:4] != struct.pack("<I", 6)]
    last = max(struct.unpack_from("<QQQQQ", header, 8)[1] + struct.unpack_from("<Q", header, 40)[0]
               for header in headers)
    place, size = (max(last, len(data)) + 8191) // 4096 * 4096, 56 * (len(headers) + 2)
    new = [struct.pack("<IIQQQQQQ", 6, 4, place, place + lies, place, size, size, 8), *headers,
           struct.pack("<IIQQQQQQ", 1, 4, place, place, place, size, size, 4096)]
    data += bytes(place - len(data)) + b"".join(new)
    struct.pack_into("<Q", data, 32, place)
    struct.pack_into("<H", data, 56, len(new))
    path.write_bytes(data)


@pytest.mark.parametrize("lies", [0, 4096])
def test_a_library_whose_headers_were_moved(record, cc, lies):
    library = cc(f"libmoved{lies}.so", MOVED, "-shared", "-fPIC", "-O1")
    caller = cc(f"calls_moved{lies}", MOVED_CALLER, library, f"-Wl,-rpath,{library.parent}")
    move_headers(library, lies)
    run = record.run(caller)
    (site,) = run.report.sites_of(run.root)
    names = [frame["function"] for frame in site["stack"]]
    if lies:  # where they are is not to be known: the program runs as ever
        assert run.root["allocated_bytes"] == 100
        return
    assert names[:7] == ["made"] * 6 + ["main"]
    assert run.root["losses"] == []
