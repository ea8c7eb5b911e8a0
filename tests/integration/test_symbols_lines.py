"""Functions, files, lines, columns and inlined calls of every instruction of programs in C,
C++ and Rust, as llvm-symbolizer and addr2line have them."""

import collections
import itertools
import os
import shutil

import pytest

from symbols_help import (
    SOURCES, addr2line, demangle, difference, instructions, llvm_symbolizer, need, run, symbolize,
)


def compare(path):
    """The answers that neither agrees with."""
    offsets = instructions(path)
    verdict, ours = symbolize(path, offsets)
    assert verdict["level"] == "full"
    oracle = llvm_symbolizer if shutil.which("llvm-symbolizer") else addr2line
    theirs = oracle(path, offsets)
    names = demangle({frame[0] for frames in theirs for frame in frames})
    differing = [i for i, offset in enumerate(offsets) if difference(ours[i], theirs[i], names)]
    assert len(differing) <= len(offsets) * 0.02, "the oracle says something else altogether"

    # llvm-symbolizer takes the outermost name from the symbol table, where functions the
    # linker found equal have any of their names.
    others = addr2line(path, [offsets[i] for i in differing])
    names.update(demangle({frame[0] for frames in others for frame in frames}))
    wrong = [
        (f"{offsets[i]:#x}", difference(ours[i], theirs[i], names), ours[i], theirs[i])
        for i, other in zip(differing, others) if difference(ours[i], other, names)
    ]
    return len(offsets), wrong


def check(path):
    asked, wrong = compare(path)
    assert asked > 100
    kinds = collections.Counter(w[1] for w in wrong)
    assert len(wrong) <= asked * 0.001, (kinds, wrong[:3])


@pytest.mark.parametrize(
    "compiler, optimisation, dwarf", itertools.product(["gcc", "clang"], ["0", "2"], ["4", "5"]))
def test_c(tmp_path, compiler, optimisation, dwarf):
    need(compiler, *(["llvm-symbolizer"] if compiler == "clang" else []))
    run(compiler, f"-O{optimisation}", f"-gdwarf-{dwarf}", SOURCES / "inlines.c",
        "-o", tmp_path / "program")
    check(tmp_path / "program")


@pytest.mark.parametrize("compiler, optimisation, dwarf", [
    ("g++", "2", "5"), ("clang++", "2", "4"),
    *(pytest.param(*rest, marks=pytest.mark.slow) for rest in [
        ("g++", "0", "4"), ("g++", "0", "5"), ("g++", "2", "4"),
        ("clang++", "0", "4"), ("clang++", "0", "5"), ("clang++", "2", "5")]),
])
def test_cpp(tmp_path, compiler, optimisation, dwarf):
    need(compiler, "llvm-symbolizer")
    run(compiler, "-std=c++17", f"-O{optimisation}", f"-gdwarf-{dwarf}", SOURCES / "templates.cpp",
        "-o", tmp_path / "program")
    check(tmp_path / "program")


@pytest.mark.parametrize("optimisation, mangling", [
    ("2", "v0"), pytest.param("0", "v0", marks=pytest.mark.slow), ("2", "legacy")])
def test_rust(tmp_path, optimisation, mangling):
    need("rustc", "llvm-symbolizer")
    run("rustc", "-Cdebuginfo=2", f"-Copt-level={optimisation}", "-Zunstable-options",
        f"-Csymbol-mangling-version={mangling}", SOURCES / "closures.rs",
        "-o", tmp_path / "program", env={**os.environ, "RUSTC_BOOTSTRAP": "1"})
    check(tmp_path / "program")


@pytest.mark.parametrize("flags", [
    ["-flto"], ["-gz"], ["-no-pie"], ["-g1"], ["-freorder-blocks-and-partition"],
    ["-ffunction-sections", "-Wl,--gc-sections"],
])
def test_how_it_was_linked(tmp_path, flags):
    need("llvm-symbolizer")
    run("gcc", "-O2", "-g", *flags, SOURCES / "inlines.c", "-o", tmp_path / "program")
    check(tmp_path / "program")


def test_inlined_four_deep(tmp_path):
    run("gcc", "-O2", "-g", SOURCES / "inlines.c", "-o", tmp_path / "program")
    offsets = instructions(tmp_path / "program")
    _, answers = symbolize(tmp_path / "program", offsets)
    chains = {tuple(f[0] for f in frames): [f[4] for f in frames] for frames in answers}
    deepest = ("get", "node_create", "list_push", "list_fill", "run")
    assert chains[deepest] == [True, True, True, True, False]
    # A shared line belongs to the call it was inlined from.
    lines = {(f[0], f[2]) for frames in answers for f in frames}
    source = (SOURCES / "inlines.c").read_text().splitlines()
    for function, text in [("get", "malloc(bytes)"), ("node_create", "= get("),
                           ("list_push", "= node_create("), ("list_fill", "\tlist_push("),
                           ("run", "list_fill(&list")]:
        numbers = {n for n, line in enumerate(source, 1) if text in line}
        assert numbers & {line for name, line in lines if name == function}, function


def test_a_return_address_is_looked_up_one_before(tmp_path):
    """A call that never returns ends its function: the address behind is the next one's."""
    (tmp_path / "p.c").write_text(
        "#include <stdlib.h>\n"
        "__attribute__((noinline, noreturn)) void fail(void)\n{\n\tabort();\n}\n"
        "__attribute__((noinline)) int next(void)\n{\n\treturn 1;\n}\n"
        "int main(int n, char **v)\n{\n\tif (n > 1)\n\t\tfail();\n\treturn next();\n}\n")
    run("gcc", "-O2", "-g", "-falign-functions=1", "-fno-reorder-functions", tmp_path / "p.c",
        "-o", tmp_path / "p")
    calls = run("objdump", "-d", tmp_path / "p", "--disassemble=fail").stdout
    lines = [line for line in calls.splitlines() if line.startswith(" ")]
    assert "call" in lines[-1]
    address, code, _ = lines[-1].split("\t", 2)
    behind = int(address.strip(" :"), 16) + len(code.split())
    _, (exact, returned) = symbolize(tmp_path / "p", [behind, f"{behind:x}r"])
    assert [f[0] for f in returned] == ["fail"] and returned[0][2] == 4
    assert not exact or exact[0][0] != "fail"


def test_ten_thousand_addresses(tmp_path):
    """Nothing is walked through for each address anew."""
    for unit in range(4):
        lines = ["#include <stdlib.h>"]
        for i in range(200):
            name = f"u{unit}_{i}"
            lines.append(f"static inline __attribute__((always_inline)) void *in_{name}(int n)"
                         f"{{ return n > {i} ? malloc(n) : calloc(n, {i + 1}); }}")
            lines.append(f"void *{name}(int n) {{ void *p = in_{name}(n); free(in_{name}(n + 1));"
                         f" return p; }}")
        (tmp_path / f"u{unit}.c").write_text("\n".join(lines))
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    run("gcc", "-O1", "-g", *tmp_path.glob("*.c"), "-o", tmp_path / "program")
    offsets = instructions(tmp_path / "program", 10000)[:10000]
    assert len(offsets) == 10000
    verdict, answers = symbolize(tmp_path / "program", offsets, options=["-w", "1"])
    assert sum(len(frames) == 2 for frames in answers) > 5000
    assert verdict["seconds"] < 3
    # Shared by several readers they are the same.
    shared, again = symbolize(tmp_path / "program", offsets, options=["-w", "4"])
    assert shared["readers"] == 4 and shared["addresses_read"] == 10000
    assert again == answers and shared["tries"] == verdict["tries"]
