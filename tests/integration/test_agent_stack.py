"""How much of a thread's stack the agent takes: 2 KiB at most from any interposer.

From GCC's call graphs (-fcallgraph-info=su): frames, return addresses included, along the
deepest chain of calls inside the agent. What an interposer calls by pointer is the real
function, whose stack the program would have used without us; a function of libc counts
LIBC bytes.
"""

import collections
import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).parent
LIMIT = 2048
FRAME = 512
LIBC = 64

NODE = re.compile(r'node: \{ title: "([^"]+)" label: "[^"]*?(?:\\n(\d+) bytes \(([^)]*)\))?"')
EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')


def graph_files(build):
    objects = sorted(build.glob("lib*agent*.p/*.ci"))
    assert objects, "no call graphs: is the agent built?"
    return objects


@pytest.fixture(scope="module")
def graph(build, sanitized):
    """frames: function -> bytes; kinds: function -> how it grows; calls: function -> callees."""
    if sanitized:
        pytest.skip("the agent is made to trap")
    frames, kinds, calls = {}, {}, collections.defaultdict(set)
    for path in graph_files(build):
        for line in path.read_text().splitlines():
            if match := NODE.match(line):
                name, size, kind = match.groups()
                if size is not None:
                    frames[name] = max(int(size), frames.get(name, 0))
                    kinds[name] = kind
            elif match := EDGE.match(line):
                calls[match[1]].add(match[2])
    return frames, kinds, calls


def lines_of(name):
    lines = (HERE / name).read_text().splitlines()
    return [line.split(maxsplit=2) for line in lines if line.strip() and line[0] != "#"]


def deepest(frames, calls, function, above=()):
    """(bytes, chain) of the deepest chain of calls that starts with function."""
    if function in above:
        raise AssertionError("recursion: " + " > ".join((*above, function)))
    if function not in frames:
        return (0 if function == "__indirect_call" else LIBC), [function]
    below = [deepest(frames, calls, callee, (*above, function)) for callee in calls[function]]
    size, chain = max(below, default=(0, []))
    return frames[function] + size, [function, *chain]


def test_frames_are_small_and_fixed(graph):
    frames, kinds, _ = graph
    allowed = {function: int(size) for function, size, _reason in lines_of("agent-frames.txt")}
    assert {f for f, kind in kinds.items() if kind != "static"} == set()
    assert {f: size for f, size in frames.items() if size > allowed.get(f, FRAME)} == {}


def test_no_chain_of_calls_is_deep(graph):
    frames, _, calls = graph
    # Those that are not there are assembly: they jump and take no stack.
    entries = {fields[0] for fields in lines_of("agent-exports.txt")} & set(frames)
    assert "malloc" in entries
    # What functions changed in place lead to, by assembly that saves as much as here.
    entries.add("hooks_inner")
    chains = {function: deepest(frames, calls, function) for function in sorted(entries)}
    assert {f: f"{size}: {' > '.join(chain)}"
            for f, (size, chain) in chains.items() if size > LIMIT} == {}
