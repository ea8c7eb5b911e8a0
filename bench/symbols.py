"""Rows of names and lines: many pcs of a big program, and what a compiler's take.

The peers answer the same questions with inlined calls and demangled names. Memory is the
most that all processes of a command had at a time, shared pages counted once, as a multiple
of the program's debug information.
"""

import pathlib
import sqlite3
import threading
import time

import big
import peers
import programs
from run import Failed, command_run


def children(pid):
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            found += [child, *children(child)]
    return found


def resident(pid):
    """Bytes of a process and those below it."""
    total = 0
    for each in [pid, *children(pid)]:
        for line in pathlib.Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


class Watch(threading.Thread):
    """The most that a command had, looked at again and again."""

    def __init__(self):
        super().__init__(daemon=True)
        self.pid, self.most, self.ended = None, 0, threading.Event()

    def started(self, process):
        self.pid = process.pid
        self.start()

    def run(self):
        while not self.ended.wait(0.01):
            try:
                self.most = max(self.most, resident(self.pid))
            except OSError:
                pass  # one that has just ended


class Resolve:
    """10,000 pcs at once: seconds, and memory as a multiple of the debug sections."""

    unit, columns = "s", ("s", "x debug sections")
    turns, once_only = 5, (peers.EuAddr2line,)
    kinds = (peers.Mallograph, peers.LlvmSymbolizer, peers.EuAddr2line)

    def __init__(self, name, title, is_warm):
        self.name, self.title, self.is_warm = name, title, is_warm

    def once(self, bench, peer):
        path = big.program(bench.build / "bench-big")
        questions = bench.directory / f"pcs-{peer.name}"
        if not questions.exists():
            questions.write_text("".join(f"{pc:#x}\n" for pc in big.pcs(path)))
        cache = bench.directory / "symbols"
        cache.mkdir(mode=0o700, exist_ok=True)
        environment = {"XDG_CACHE_HOME": str(cache)}
        command = peer.symbolize(path, big.build_id(path))
        if isinstance(peer, peers.Mallograph):
            for kept in (cache / "mallograph").glob("*"):
                kept.unlink()
            if self.is_warm:
                command_run(command, environment, given=questions)
        watch = Watch()
        done = command_run(command, environment, given=questions, started=watch.started)
        watch.ended.set()
        watch.join()
        if len(done.output.splitlines()) < big.PCS:
            raise Failed("not all were answered")
        return done.seconds, watch.most / big.debug_bytes(path)


class Compiler:
    """From the end of cc1plus to the end of the command."""

    unit, columns = "s", ("s",)
    turns, once_only = 5, ()
    kinds = (peers.Mallograph,)

    def __init__(self, name, title, is_warm):
        self.name, self.title, self.is_warm = name, title, is_warm

    def after_end(self, bench, environment):
        path = bench.directory / "compiler.mgp"
        done = command_run([bench.build / "mallograph", "-q", "-o", path, "--",
                            *programs.cc1plus(bench.directory)], environment)
        profile = sqlite3.connect(path)
        began = int(dict(profile.execute("select * from meta"))["start_unix_ns"])
        lasted, = profile.execute("select max(stop) from process").fetchone()
        profile.close()
        return done.end + time.time() - time.monotonic() - (began + lasted) / 1e9

    def once(self, bench, peer):
        cache = bench.directory / f"cache-{self.name}"
        cache.mkdir(mode=0o700, exist_ok=True)
        if not self.is_warm:
            return (self.after_end(bench, {"MALLOGRAPH_CACHE": "off"}),)
        environment = {"XDG_CACHE_HOME": str(cache)}
        if not (cache / "mallograph").exists():
            self.after_end(bench, environment)
        return (self.after_end(bench, environment),)


ROWS = (
    Resolve("symbols-cold", "10,000 pcs, 200 MB of DWARF", False),
    Resolve("symbols-warm", "... once more", True),
    Compiler("cc1plus-end-cold", "cc1plus, from its end", False),
    Compiler("cc1plus-end-warm", "... once more", True),
)
