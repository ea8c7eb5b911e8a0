"""The rows of the bench: what is run, how often, and what one run's figure is."""

import os
import re
import subprocess
import tempfile
import time

import peers

HEAPTRACK = (peers.Native, peers.Mallograph, peers.Heaptrack)
EXACT = (*HEAPTRACK, peers.Jemalloc, peers.JemallocSampled, peers.Tcmalloc, peers.Memusage,
         peers.Bytehound)


def execute(peer, command, cwd=None, limit=600):
    """(its output, wall seconds) of a command under a peer; nothing is left behind."""
    with tempfile.TemporaryDirectory(prefix="mallograph-bench.") as scratch:
        command, added = peer.wrap([str(part) for part in command], scratch)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOGRAPH_")}
        start = time.monotonic()
        done = subprocess.run([str(part) for part in command], env=environment | added, cwd=cwd,
                              capture_output=True, text=True, timeout=limit, check=False)
        seconds = time.monotonic() - start
    if done.returncode != 0:
        raise RuntimeError(f"{peer.name}: exit {done.returncode}: {done.stderr[-300:]}")
    return done.stdout, seconds


class Loop:
    """bench/loops: nanoseconds a pair, by the wall clock or of the process's CPU time."""

    unit = "ns"
    turns = 5
    kinds = EXACT
    WALL, _, CPU = range(3)

    def __init__(self, name, title, arguments, column=WALL, seconds=0.5):
        self.name, self.title = name, title
        self.arguments, self.column, self.seconds = arguments, column, seconds

    def loop(self, build, peer, arguments):
        output, _ = execute(peer, [build / "bench/loops", *arguments, self.seconds])
        figures = re.search(r"^([\d.]+) ([\d.]+) ([\d.]+)$", output, re.M)
        return float(figures.group(self.column + 1))

    def once(self, build, peer):
        """What one run measured; the first is the one shown."""
        return (self.loop(build, peer, self.arguments),)


class Growth(Loop):
    """The same with one thread is measured in the same turn."""

    kinds = HEAPTRACK

    def once(self, build, peer):
        work, depth, _ = self.arguments
        return tuple(self.loop(build, peer, arguments)
                     for arguments in (self.arguments, (work, depth, 1)))


ROWS = (
    Loop("pair-5", "pair, depth 5", ("pair", 5, 1)),
    Loop("pair-30", "pair, depth 30", ("pair", 30, 1)),
    Loop("pair-100", "pair, depth 100", ("pair", 100, 1)),
    Loop("pair-30-2-threads", "pair, depth 30, 2 threads", ("pair", 30, 2), Loop.CPU),
    Growth("pair-30-4-threads", "pair, depth 30, 4 threads", ("pair", 30, 4), Loop.CPU),
    Loop("alternate-100", "nine alternating, depth 100", ("alternate", 100, 1)),
    Loop("replace", "replace of 200k blocks", ("replace", 0, 1)),
)
