"""Rows of real programs: the wall time of the whole command, its profile included."""

import functools
import re
import shlex
import shutil
import subprocess
import sys

import inputs
import peers
from run import HEAPTRACK, Failed, execute

PEERS = (*HEAPTRACK, peers.HeaptrackSymbols, peers.JemallocSampled, peers.Tcmalloc,
         peers.Memusage, peers.Bytehound)


def jq(directory):
    return [found("jq"), inputs.JQ_FILTER, inputs.jq_document(directory)]


def python(directory):
    return [sys.executable, inputs.python_script(directory), inputs.jq_document(directory)]


def sqlite3(directory):
    return [found("sqlite3"), "-init", inputs.sql_script(directory), ":memory:", ".exit"]


@functools.cache
def cc1plus(directory):
    """The compiler itself: heaptrack would record g++, which only starts it."""
    said = subprocess.run([found("g++"), "-###", "-std=c++17", "-S", "-o", "/dev/null",
                           inputs.cxx_source(directory)], capture_output=True, text=True,
                          check=True)
    return shlex.split(re.search(r"^ (.*/cc1plus .*)$", said.stderr, re.M).group(1))


def clang(directory):
    return [found("clang"), "-std=c++17", "-c", "-o", "/dev/null", inputs.cxx_source(directory)]


def found(name):
    path = shutil.which(name)
    if not path:
        raise Failed(f"no {name}")
    return path


class Program:
    unit, columns = "s", ("s", "s of CPU, all processes")
    turns = 5
    # What takes minutes is run in the first turn alone.
    once_only = (peers.HeaptrackSymbols, peers.Tcmalloc)

    def __init__(self, command, title, environment=None, more=(), limit=300):
        self.command, self.environment, self.limit = command, environment, limit
        self.name, self.title = command.__name__, title
        self.kinds = (*PEERS, *more)

    def once(self, bench, peer):
        done = execute(peer, self.command(bench.directory), environment=self.environment,
                       limit=self.limit)
        return done.seconds, done.cpu


ROWS = (
    Program(jq, "jq"),
    Program(python, "python3, PYTHONMALLOC=malloc", {"PYTHONMALLOC": "malloc"},
            (peers.Memray, peers.MemrayNative)),
    Program(sqlite3, "sqlite3"),
    Program(cc1plus, "cc1plus"),
    Program(clang, "clang -c"),
)
