"""Rows of process trees: bench/processes.c, and a session of very many processes."""

import os
import pathlib
import re
import sqlite3
import tempfile
import threading

import peers
from profiles import Own
from run import HEAPTRACK, Failed, command_run, execute

SESSION = 10_000


def microseconds(done):
    return float(re.search(rb"^[\d.]+$", done.output, re.M)[0])


class Child:
    """A child from its start until its parent has waited for it, microseconds."""

    unit, columns = "us", ("us a child",)
    turns, once_only = 9, ()
    kinds = HEAPTRACK

    def __init__(self, way, title, count=1000, program=None):
        self.way, self.count, self.program = way, count, program
        self.name, self.title = f"process-{way}", title

    def once(self, bench, peer):
        program = [bench.build / self.program] if self.program else []
        command = [bench.build / "bench/processes", self.way, self.count, *program]
        return (microseconds(execute(peer, command)),)


class Memory(threading.Thread):
    """The most that the session files of a directory took while this ran, in bytes."""

    def __init__(self, directory):
        super().__init__(daemon=True)
        self.directory, self.most = directory, 0
        self.done = threading.Event()

    def look(self):
        held = 0
        for path in self.directory.rglob("*.mgl"):
            try:
                held += path.stat().st_blocks * 512
            except FileNotFoundError:
                pass
        self.most = max(self.most, held)

    def run(self):
        while not self.done.wait(0.05):
            self.look()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()


class Session(Own):
    """Forks that allocate, in one session: the report's time, what the profile and, at most,
    the session's files took."""

    name, title = "processes-session", f"{SESSION:,} processes, report"
    columns = ("s", "MB of profile", "MB of ledgers", "us a child")
    turns = 3

    def once(self, bench, peer):
        path = bench.directory / "processes.mgp"
        with tempfile.TemporaryDirectory(prefix="mallograph-bench.", dir="/dev/shm") as runtime:
            with Memory(pathlib.Path(runtime)) as memory:
                done = command_run([bench.build / "mallograph", "-q", "-o", path, "--",
                                    bench.build / "bench/processes", "allocate", SESSION],
                                   environment={"XDG_RUNTIME_DIR": runtime})
        profile = sqlite3.connect(path)
        count = profile.execute("select count(*) from process").fetchone()[0]
        profile.close()
        if count != SESSION + 1:
            raise Failed(f"the profile has {count} processes")
        report = command_run([bench.build / "mallograph", "report", path], keep=False)
        return (report.seconds, os.path.getsize(path) / 1e6, memory.most / 1e6,
                microseconds(done))


ROWS = (
    Child("exit", "fork, exit"),
    Child("allocate", "fork, malloc, exit"),
    Child("fork", "fork, exec", 300, "bench/nothing"),
    Child("vfork", "vfork, exec", 300, "bench/nothing"),
    Child("spawn", "posix_spawn", 300, "bench/nothing"),
    Session(),
)
