"""Asking symbolize_tool, addr2line and llvm-symbolizer the same questions."""

import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT

TOOL = BUILD / "tests" / "programs" / "symbolize_tool"
SOURCES = ROOT / "tests" / "programs" / "symbols"

SOURCE = """\
#include <stdlib.h>
#include <stdio.h>
int table[64];
static __attribute__((noinline)) void *hidden(int n)
{
	return malloc(n + table[n & 63]);
}
__attribute__((noinline, visibility("default"))) void *shown(int n)
{
	return hidden(n + 1);
}
int main(int argc, char **argv)
{
	printf("%p\\n", shown(argc));
	return 0;
}
"""


class Program:
    """A program of SOURCE, what addresses of it to ask for, and a debug directory."""

    def __init__(self, directory, *flags, source=SOURCE):
        self.directory = directory
        self.root = directory / "root"
        self.root.mkdir()
        self.source = directory / "program.c"
        self.source.write_text(source)
        self.path = directory / "program"
        run("gcc", "-g", "-O1", "-rdynamic", "-Wl,--build-id", *flags, self.source,
            "-o", self.path, cwd=directory)
        self.functions = {n: symbols_of(self.path, n)[0] for n in ("hidden", "shown", "main")}

    def ask(self, build_id=None, path=None):
        verdict, answers = symbolize(path or self.path, list(self.functions.values()), build_id,
                                     [self.root])
        return verdict, dict(zip(self.functions, answers))

    def separate(self, to):
        """The debug information to a file of its own, the program stripped."""
        to.parent.mkdir(parents=True, exist_ok=True)
        run("objcopy", "--only-keep-debug", self.path, to)
        run("strip", self.path)
        return to

    def by_build_id(self, id=None):
        id = id or build_id(self.path)
        return self.root / ".build-id" / id[:2] / f"{id[2:]}.debug"


def need(*commands):
    for command in commands:
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed")


def run(*command, **more):
    more = {"check": True, "capture_output": True, "text": True, **more}
    return subprocess.run([str(word) for word in command], **more)


def build_id(path):
    return re.search(r"Build ID: (\w+)", run("readelf", "-n", path).stdout)[1]


def symbols_of(path, name):
    """name's address and size."""
    for line in run("readelf", "-sW", path).stdout.splitlines():
        word = line.split()
        if len(word) == 8 and word[7] == name and word[6] != "UND":
            return int(word[1], 16), int(word[2], 0)
    raise KeyError(name)


def symbolize(path, offsets, build_id=None, directories=(), options=(), **more):
    """The verdict, and for each offset its frames, (function, file, line, column, inlined).
    An offset is a number (exact), or text as the tool reads it."""
    text = "".join(f"{o:x}\n" if isinstance(o, int) else f"{o}\n" for o in offsets)
    command = [TOOL, *options]
    for directory in directories:
        command += ["-d", directory]
    command += [path] + ([build_id] if build_id else [])
    lines = run(*command, input=text, timeout=120, **more).stdout.splitlines()
    assert len(lines) == 1 + len(offsets)
    return json.loads(lines[0]), [[tuple(f) for f in json.loads(line)] for line in lines[1:]]


def instructions(path, most=5000):
    """Where the instructions of .text are, or every nth of them."""
    listing = run("objdump", "-d", "--no-show-raw-insn", "-j", ".text", path).stdout
    found = [int(m[1], 16) for m in re.finditer(r"^\s*([0-9a-f]+):", listing, re.M)]
    return found[:: max(1, len(found) // most)]


def llvm_symbolizer(path, offsets):
    output = run("llvm-symbolizer", f"--obj={path}", "--output-style=JSON", "--no-demangle",
                 input="".join(f"{o:#x}\n" for o in offsets)).stdout
    answers = []
    for line in output.splitlines():
        parsed = json.loads(line)
        for answer in parsed if isinstance(parsed, list) else [parsed]:
            answers.append([(s["FunctionName"], s["FileName"], s["Line"], s["Column"])
                            for s in answer.get("Symbol", [])])
    assert len(answers) == len(offsets)
    return answers


def addr2line(path, offsets):
    lines = run("addr2line", "-afi", "-e", path,
                input="".join(f"{o:#x}\n" for o in offsets)).stdout.splitlines()
    answers = []
    at = 0
    while at < len(lines):
        if re.fullmatch(r"0x[0-9a-f]{16}", lines[at]):
            answers.append([])
            at += 1
            continue
        place = re.sub(r" \(discriminator \d+\)$", "", lines[at + 1])
        file, _, line = place.rpartition(":")
        answers[-1].append((lines[at], file, int(line) if line.isdigit() else 0, None))
        at += 2
    assert len(answers) == len(offsets)
    return answers


def demangle(names):
    """By c++filt, which leaves return types in and knows nothing of hashes it was told to keep."""
    names = sorted(names)
    output = run("c++filt", "-i", input="".join(f"{name}\n" for name in names)).stdout
    return dict(zip(names, output.splitlines()))


UNKNOWN = {None, "", "??"}
CLONES = re.compile(r" \[clone [^\]]*\]|\.(?:constprop|isra|part|cold|lto_priv|llvm)(?:\.\d+)*|\.\d+$")


def same_function(ours, raw, demangled):
    if ours in UNKNOWN or raw in UNKNOWN:
        return ours in UNKNOWN and raw in UNKNOWN
    theirs = re.sub(r"::h[0-9a-f]{16}$", "", CLONES.sub("", demangled))
    mangled = raw.startswith(("_Z", "_R"))
    return (
        theirs == ours
        or theirs.endswith(" " + ours)  # behind a return type
        or (not mangled and ours.endswith("::" + theirs))  # they leave scopes out
        or theirs.startswith(ours + "(")  # an inlined one without a mangled name
        or theirs.strip("_") == ours.strip("_")  # another alias of a library's function
    )


def same_file(ours, theirs):
    if ours in UNKNOWN or theirs in UNKNOWN:
        return ours in UNKNOWN and theirs in UNKNOWN
    ours, theirs = os.path.normpath(ours), os.path.normpath(theirs)
    return theirs.endswith(ours) or ours.endswith(theirs)


def difference(ours, theirs, names):
    """What two answers differ in: None, depth, function, file, line or column."""
    theirs = [f for f in theirs if not (f[0] in UNKNOWN and f[1] in UNKNOWN)]
    if len(ours) != len(theirs):
        return "depth"
    for (function, file, line, column, _), (raw, file2, line2, column2) in zip(ours, theirs):
        if not same_function(function, raw, names[raw]):
            return "function"
        # Of code without debug information they tell the file its symbols came from.
        if not (file is None and line2 == 0) and not same_file(file, file2):
            return "file"
        if line != line2:
            return "line"
        # A column of no line says nothing.
        if line and column2 is not None and column != column2:
            return "column"
    return None
