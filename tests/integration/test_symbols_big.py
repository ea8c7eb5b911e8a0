"""A big C++ program: answers as llvm-symbolizer's at random pcs, read whole or in parts, with
the cache or without. In full it is the bench's, of 200 MB of debug information."""

import collections
import os
import pathlib
import sys

import pytest

from symbols_help import build_id, demangle, difference, llvm_symbolizer, need, symbolize

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import big  # noqa: E402


def differences(path, offsets, ours):
    """What they differ in, with an example of each."""
    theirs = llvm_symbolizer(path, offsets)
    names = demangle({frame[0] for frames in theirs for frame in frames})
    found = collections.defaultdict(list)
    for offset, mine, other in zip(offsets, ours, theirs):
        kind = difference(mine, other, names)
        if kind:
            found[kind].append((f"{offset:#x}", mine, other))
    return {kind: (len(all_of), all_of[0]) for kind, all_of in found.items()}


@pytest.mark.parametrize("units, copies", [
    (1, 3), pytest.param(big.UNITS, big.COPIES, marks=pytest.mark.slow)])
def test_random_pcs(tmp_path, units, copies):
    """Depth of inlining, and of each frame function, file, line and column. Here all agree; where
    they did not it would be functions the linker found equal, which share a place."""
    need("g++", "llvm-symbolizer")
    path = big.program(tmp_path, units, copies)
    offsets = big.pcs(path)
    assert len(offsets) == big.PCS
    verdict, ours = symbolize(path, offsets, options=["-w", "1"])
    assert verdict["level"] == "full"
    found = differences(path, offsets, ours)
    assert sum(count for count, _ in found.values()) <= len(offsets) * 0.001, found
    assert sum(len(frames) > 1 for frames in ours) > len(offsets) // 4

    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for readers in (4, 0):
        verdict, again = symbolize(path, offsets, build_id=build_id(path), options=["-c", "-w", "4"],
                                   env=env)
        assert verdict["readers"] == readers and again == ours
