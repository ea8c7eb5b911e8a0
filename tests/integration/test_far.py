"""Processes whose place is far out in the session file, as of the last of very many."""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import pytest

import ledger_file
from oracle import report

GIB = 1 << 30
FAR = 100 * GIB

PROGRAM = """
import os, resource
{first}
def child(depth):
    pid = os.fork()
    if pid == 0:
        kept = [bytearray(1000 + n) for n in range(3000)]
        if depth:
            child(depth - 1)
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        os._exit(1)
child(2)
child(0)
"""
LOCKED = """
import ctypes
if ctypes.CDLL(None).mlockall(3) != 0:
    raise SystemExit(77)
"""
SMALL = "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))"


@pytest.fixture
def session(agent):
    """A session file in memory, of which the next place to be taken is far out."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="mallograph-test.") as directory:
        path = pathlib.Path(directory) / "far.mgl"
        env = {**os.environ, "LD_PRELOAD": str(agent), "MALLOGRAPH_OUT": str(path)}
        subprocess.run(["true"], env=env, check=True)
        place, code = ledger_file.Session.places["next_unit"]
        with path.open("r+b") as file:
            file.seek(place)
            file.write(struct.pack(code, FAR // ledger_file.UNIT))
        yield path


@pytest.mark.parametrize("first", ["", LOCKED, SMALL], ids=["plain", "locked", "small"])
def test_far_children(agent, mallograph, session, first):
    env = {**os.environ, "LD_PRELOAD": str(agent), "MALLOGRAPH_SESSION": str(session)}
    done = subprocess.run([sys.executable, "-S", "-c", PROGRAM.format(first=first)], env=env, timeout=60)
    if done.returncode == 77:
        pytest.skip("memory may not be locked here")
    assert done.returncode == 0
    # What a locked mapping has is there whole, but no mapping is of what lies between.
    assert session.stat().st_blocks * 512 < GIB / 8
    processes = report(mallograph, session).processes
    children = [process for process in processes if process["how"] == "fork"]
    assert len(processes) == 6 and len(children) == 4
    for process in children:
        assert process["allocations"] > 3000
        assert process["losses"] == []
