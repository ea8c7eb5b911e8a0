"""The heap profilers side by side: how each runs a command, and which are here.

native and mallograph are always; another that is missing is named with the reason. A
peer writes what it records into a scratch directory that is thrown away.
"""

import os
import re
import shutil
import sqlite3
import subprocess


class Missing(Exception):
    """A peer that is not on this machine; the message says what would bring it."""


def library(name):
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False)
    found = re.search(rf"^\s*{re.escape(name)} .*x86-64.*=> (\S+)$", listed.stdout, re.M)
    if not found:
        raise Missing(f"no {name}")
    return found.group(1)


def program(name):
    found = shutil.which(name)
    if not found:
        raise Missing(f"no {name}")
    return found


class Peer:
    def __init__(self, build):
        self.build = build

    def wrap(self, command, scratch):
        """The command line and the environment's additions that run `command` recorded."""
        raise NotImplementedError

    def lacks(self, scratch):
        """Why what was recorded is not whole; None = it is, as far as this bench can tell."""
        return None if any(scratch.iterdir()) else "nothing was recorded"


class Native(Peer):
    name = "native"

    def wrap(self, command, scratch):
        return command, {}

    def lacks(self, scratch):
        return None


class Mallograph(Peer):
    """The whole command: the profile written, with symbols, and the summary printed."""

    name = "mallograph"
    # What bounds a profile or a stack, not the recording.
    BOUNDS = ("blocks_not_listed", "cut_stacks", "series_thinned")

    def wrap(self, command, scratch):
        return [self.build / "mallograph", "-o", f"{scratch}/out.mgp", "--", *command], {}

    def lacks(self, scratch):
        profile = sqlite3.connect(scratch / "out.mgp")
        kinds = {kind for kind, in profile.execute("select kind from loss")}
        profile.close()
        return ", ".join(sorted(kinds.difference(self.BOUNDS))) or None


    def symbolize(self, path, build_id):
        """The command that answers pcs on standard input, one a line."""
        return [self.build / "tests/programs/symbolize_tool", "-c", path, build_id]


class LlvmSymbolizer(Peer):
    name = "llvm-symb."

    def __init__(self, build):
        super().__init__(build)
        self.path = program("llvm-symbolizer")

    def symbolize(self, path, build_id):
        return [self.path, f"--obj={path}"]


class EuAddr2line(Peer):
    name = "eu-addr2line"

    def __init__(self, build):
        super().__init__(build)
        self.path = program("eu-addr2line")

    def symbolize(self, path, build_id):
        return [self.path, "-e", path, "-f", "-i", "-C"]


class Heaptrack(Peer):
    """Without symbols: what it recorded, compressed."""

    name = "heaptrack"
    options = ("-r",)

    def __init__(self, build):
        super().__init__(build)
        self.path = program("heaptrack")

    def wrap(self, command, scratch):
        command = [self.path, *self.options, "-o", f"{scratch}/out", *command]
        return command, {}


class HeaptrackSymbols(Heaptrack):
    """As people call it: addresses become functions and lines while the program runs."""

    name = "ht+symbols"
    options = ()


class Jemalloc(Peer):
    """Its profiler samples one allocation in 512 KiB; this asks for every one."""

    name = "jemalloc-prof"
    configuration = "lg_prof_sample:0"

    def __init__(self, build):
        super().__init__(build)
        self.path = library("libjemalloc.so.2")
        said = subprocess.run(["/bin/true"], env=self.settings("/nowhere"), check=False,
                              capture_output=True, text=True)
        if "prof" in said.stderr:
            raise Missing("this libjemalloc was built without prof")

    def settings(self, scratch):
        options = f"prof:true,prof_final:true,prof_prefix:{scratch}/j,{self.configuration}"
        return {"LD_PRELOAD": self.path, "MALLOC_CONF": options}

    def wrap(self, command, scratch):
        return command, self.settings(scratch)


class JemallocSampled(Jemalloc):
    name = "jemalloc-512K"
    configuration = "lg_prof_sample:19"


class Tcmalloc(Peer):
    name = "tcmalloc"

    def __init__(self, build):
        super().__init__(build)
        self.path = library("libtcmalloc.so.4")

    def wrap(self, command, scratch):
        return command, {"LD_PRELOAD": self.path, "HEAPPROFILE": f"{scratch}/t"}


class Memusage(Peer):
    """No stacks: it counts sizes."""

    name = "memusage"

    def __init__(self, build):
        super().__init__(build)
        self.path = program("memusage")

    def wrap(self, command, scratch):
        return [self.path, "--data", f"{scratch}/m", *command], {}


class Bytehound(Peer):
    """In no registry; a libbytehound.so that somebody built is named by BYTEHOUND."""

    name = "bytehound"

    def __init__(self, build):
        super().__init__(build)
        self.path = os.environ.get("BYTEHOUND")
        if not self.path:
            raise Missing("not on crates.io; BYTEHOUND=FILE names a libbytehound.so")

    def wrap(self, command, scratch):
        return command, {"LD_PRELOAD": self.path, "MEMORY_PROFILER_OUTPUT": f"{scratch}/b",
                         "MEMORY_PROFILER_LOG": "off"}


class Memray(Peer):
    """Python alone, its frames only; tools/setup-memray installs it into the build directory."""

    name = "memray"
    options = ()

    def __init__(self, build):
        super().__init__(build)
        self.python = build / "memray/bin/python"
        done = subprocess.run([self.python, "-c", "import memray"], capture_output=True,
                              check=False) if self.python.exists() else None
        if not done or done.returncode != 0:
            raise Missing("pip could not install it")

    def wrap(self, command, scratch):
        return [self.python, "-m", "memray", "run", "-q", *self.options, "-o", f"{scratch}/m",
                *command[1:]], {}


class MemrayNative(Memray):
    name = "memray-nat."
    options = ("--native",)


ALWAYS = (Native, Mallograph)


def find(build, kinds):
    """(those of `kinds` that are here, {name: why another is not})."""
    here, missing = [], {}
    for kind in kinds:
        try:
            here.append(kind(build))
        except Missing as reason:
            missing[kind.name] = str(reason)
    return here, missing
