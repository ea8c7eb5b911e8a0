"""Running a command under a peer, once."""

import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

import peers

HEAPTRACK = (peers.Native, peers.Mallograph, peers.Heaptrack)


class Failed(Exception):
    """A run that gave no figure; the message says why."""


class Done:
    """A command that ended well."""

    def __init__(self, output, seconds, end, usage):
        self.output = output  # what it printed to standard output, bytes
        self.seconds = seconds
        self.end = end  # CLOCK_MONOTONIC as it ended
        self.cpu = usage.ru_utime + usage.ru_stime  # of all its processes
        self.megabytes = usage.ru_maxrss * 1024 / 1e6  # resident, of the largest of them


def kill_group(pid, killed):
    killed.append(True)
    os.killpg(pid, signal.SIGKILL)


def command_run(command, environment=None, limit=300, keep=True, given=os.devnull, started=None):
    """A Done; its output goes to a file, so that nobody waits for a reader, or to nowhere. It
    reads the file `given`; started(process) is told when it runs."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MALLOGRAPH_")}
    killed = []
    with (tempfile.TemporaryFile() if keep else open(os.devnull, "w+b")) as out, \
            tempfile.TemporaryFile() as said, open(given, "rb") as standard_input:
        start = time.monotonic()
        process = subprocess.Popen([str(part) for part in command], stdin=standard_input,
                                   stdout=out, stderr=said, env=clean | (environment or {}),
                                   preexec_fn=os.setpgrp)
        timer = threading.Timer(limit, kill_group, (process.pid, killed))
        timer.start()
        if started:
            started(process)
        _, status, usage = os.wait4(process.pid, 0)
        end = time.monotonic()
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said.seek(0)
        if killed:
            raise Failed(f"more than {limit} s")
        if process.returncode != 0:
            words = said.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise Failed(f"exit {process.returncode}: {words[:200]}")
        return Done(out.read(), end - start, end, usage)


def execute(peer, command, environment=None, limit=300):
    """A Done of a command under a peer; what the peer wrote is thrown away."""
    with tempfile.TemporaryDirectory(prefix="mallograph-bench.") as scratch:
        command, added = peer.wrap(command, pathlib.Path(scratch))
        done = command_run(command, (environment or {}) | added, limit)
        lack = peer.lacks(pathlib.Path(scratch))
        if lack:
            raise Failed(lack)
        return done
