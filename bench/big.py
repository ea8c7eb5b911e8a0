"""A C++ program of more than 200 MB of debug information, made at little cost.

A few units of templates are compiled once; each then stands in the program many times, under
the same names, as if it were another: its code at other places, with debug information of its
own. So a symbolizer has as many units to find its way through as in a program that took an
hour to compile. The bench keeps it in the build directory.
"""

import hashlib
import random
import re
import subprocess

import inputs
from run import Failed

UNITS, COPIES = 6, 21
PCS = 10_000


def command(*words, cwd):
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise Failed(f"{words[0]}: {(done.stderr.splitlines() or ['failed'])[0][:150]}")
    return done.stdout


def source(unit):
    each = (inputs.CXX_EACH.format(n=n, m=n + 7) for n in range(unit * 4, unit * 4 + 4))
    return inputs.CXX_HEAD + "".join(each)


def unit_made(directory, unit):
    """An object file without anything to be shared by two copies of it."""
    (directory / f"{unit}.cpp").write_text(source(unit))
    command("g++", "-std=c++17", "-O1", "-g", "-fno-gnu-unique", "-c", f"{unit}.cpp", cwd=directory)
    command("ld", "-r", "--force-group-allocation", "-o", "whole.o", f"{unit}.o", cwd=directory)
    command("objcopy", "--keep-global-symbol=none", "whole.o", f"{unit}.o", cwd=directory)
    return f"{unit}.o"


def program(directory, units=UNITS, copies=COPIES):
    """Its path, made where it is not there yet."""
    text = repr((units, copies)) + "".join(source(unit) for unit in range(units))
    path = directory / hashlib.sha256(text.encode()).hexdigest()[:16]
    if path.exists():
        return path
    directory.mkdir(exist_ok=True)
    (directory / "main.c").write_text("int main(void) { return 0; }\n")
    objects = [unit_made(directory, unit) for unit in range(units)]
    command("g++", "-Wl,--build-id", "-o", f"{path}.new", "main.c", *objects * copies, cwd=directory)
    (directory / f"{path.name}.new").rename(path)
    return path


def sections(path):
    """name: (address, bytes)"""
    listing = command("readelf", "-SW", path, cwd=path.parent)
    return {m[1]: (int(m[2], 16), int(m[3], 16)) for m in re.finditer(
        r"\] (\.\S+)\s+\S+\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)", listing)}


def debug_bytes(path):
    return sum(size for name, (_, size) in sections(path).items() if name.startswith(".debug"))


def build_id(path):
    return re.search(r"Build ID: (\w+)", command("readelf", "-n", path, cwd=path.parent))[1]


def pcs(path):
    """The same ones each time, each once."""
    start, size = sections(path)[".text"]
    return random.Random(1).sample(range(start, start + size), min(PCS, size))
