"""Rows of one allocation and free, again and again: bench/loops.c."""

import re

import measure
import peers
from run import HEAPTRACK, execute

EXACT = (*HEAPTRACK, peers.Jemalloc, peers.JemallocSampled, peers.Tcmalloc, peers.Memusage,
         peers.Bytehound)


class Loop:
    """bench/loops: nanoseconds a pair, by the wall clock or of the process's CPU time."""

    unit, columns = "ns", ("ns a pair",)
    turns = 5
    once_only = ()
    kinds = EXACT
    WALL, _, CPU = range(3)

    def __init__(self, name, title, arguments, column=WALL, seconds=0.5):
        self.name, self.title = name, title
        self.arguments, self.column, self.seconds = arguments, column, seconds

    def loop(self, bench, peer, arguments):
        done = execute(peer, [bench.build / "bench/loops", *arguments, self.seconds])
        figures = re.search(rb"^([\d.]+) ([\d.]+) ([\d.]+)$", done.output, re.M)
        return float(figures.group(self.column + 1))

    def once(self, bench, peer):
        """What one run measured; the first is the one shown."""
        return (self.loop(bench, peer, self.arguments),)


class Growth(Loop):
    """The same with one thread is measured in the same turn."""

    columns = ("ns a pair", "ns with 1 thread")
    kinds = HEAPTRACK

    def once(self, bench, peer):
        work, depth, _ = self.arguments
        return tuple(self.loop(bench, peer, arguments)
                     for arguments in (self.arguments, (work, depth, 1)))


class Instructions:
    """What a pair executes: the same on every machine, and in every turn."""

    unit, columns = "instr", ("instructions a pair",)
    turns, once_only = 1, ()
    kinds = (peers.Native, peers.Mallograph)

    def __init__(self, depth):
        self.depth = depth
        self.name, self.title = f"instructions-{depth}", f"instructions, depth {depth}"

    def once(self, bench, peer):
        recorded = type(peer) is peers.Mallograph
        return (measure.instructions(bench.build, self.depth)[recorded],)


ROWS = (
    *(Instructions(depth) for depth in (5, 30, 100)),
    Loop("pair-5", "pair, depth 5", ("pair", 5, 1)),
    Loop("pair-30", "pair, depth 30", ("pair", 30, 1)),
    Loop("pair-100", "pair, depth 100", ("pair", 100, 1)),
    Loop("pair-30-2-threads", "pair, depth 30, 2 threads", ("pair", 30, 2), Loop.CPU),
    Growth("pair-30-4-threads", "pair, depth 30, 4 threads", ("pair", 30, 4), Loop.CPU),
    Loop("alternate-100", "nine alternating, depth 100", ("alternate", 100, 1)),
    Loop("callers-100", "two callers of nine, depth 100", ("callers", 100, 1)),
    Loop("replace", "replace of 200k blocks", ("replace", 1, 1)),
    Loop("replace-sizes", "the same, of any size", ("replace-sizes", 1, 1)),
)
