"""Debug information that stays in .dwo files, and packages of those."""

import random

import pytest

from symbols_help import build_id, instructions, need, run, symbolize, symbols_of
from test_symbols_files import expect_lines, program, tries

__all__ = ["program"]  # a fixture


@pytest.mark.parametrize("version", ["4", "5"])
def test_split_dwarf(program, version):
    p = program("-gsplit-dwarf", f"-gdwarf-{version}")
    dwo = list(p.directory.glob("*.dwo"))
    assert len(dwo) == 1
    verdict, answers = p.ask(build_id(p.path))
    assert verdict["level"] == "full" and verdict["reason"] is None
    assert tries(verdict) == [("split", "not there", f"{p.path}.dwp"), ("split", "found", str(dwo[0]))]
    expect_lines(answers, p.source)

    dwo[0].unlink()
    verdict, answers = p.ask(build_id(p.path))
    assert ("split", "not there", str(dwo[0])) in tries(verdict)
    assert verdict["level"] == "lines" and ".dwo" in verdict["reason"]
    expect_lines(answers, p.source)


PARTS = {
    "first.c": """\
#include <stdlib.h>
static inline __attribute__((always_inline)) void *innermost(int n)
{
	if (__builtin_expect(n > 1000000, 0))
		abort();
	return malloc(n);
}
__attribute__((noinline)) void *first(int n)
{
	return innermost(n + 1);
}
void *second(int n);
int main(int argc, char **argv)
{
	return first(argc) == second(argc);
}
""",
    "second.c": """\
#include <stdlib.h>
struct thing { int n; };
static inline __attribute__((always_inline)) void *innermost(struct thing *t)
{
	if (__builtin_expect(t->n > 1000000, 0))
		exit(3);
	return calloc(1, t->n);
}
__attribute__((noinline)) void *second(int n)
{
	struct thing t = {n};
	return innermost(&t);
}
""",
}


def split_program(tmp_path, compiler, version, flag="-O2"):
    for name, text in PARTS.items():
        (tmp_path / name).write_text(text)
        run(compiler, "-g", "-O2", flag, "-gsplit-dwarf", f"-gdwarf-{version}", "-c", name, cwd=tmp_path)
    run(compiler, "-Wl,--build-id", "first.o", "second.o", "-o", "program", cwd=tmp_path)
    return tmp_path / "program", sorted(tmp_path.glob("*.dwo"))


@pytest.mark.parametrize("compiler, tool, version", [
    ("gcc", ["dwp"], 4), ("gcc", ["llvm-dwp"], 4), ("clang", ["llvm-dwp"], 4), ("clang", ["llvm-dwp"], 5),
])
@pytest.mark.parametrize("flag", ["-O2", "-O1", "-fno-reorder-blocks-and-partition"])
def test_a_package_of_split_dwarf(tmp_path, compiler, tool, version, flag):
    """All that the .dwo files say, of every instruction. (DWARF 5 of GCC is none that dwp and
    llvm-dwp of the same age can pack.)"""
    need(compiler, *tool)
    if compiler == "clang" and flag.startswith("-f"):
        pytest.skip("a flag of GCC's")
    path, dwo = split_program(tmp_path, compiler, version, flag)
    offsets = instructions(path)
    before, expected = symbolize(path, offsets, build_id(path))
    assert before["level"] == "full" and sum(map(len, expected)) > len(offsets)
    run(*tool, *dwo, "-o", f"{path}.dwp")
    for file in dwo:
        file.unlink()
    verdict, answers = symbolize(path, offsets, build_id(path))
    assert verdict["level"] == "full" and verdict["reason"] is None
    assert answers == expected
    assert ("split", "found", f"{path}.dwp") in tries(verdict)

    # Beside the program also where its debug file has the skeletons.
    debug = tmp_path / "root" / ".build-id" / build_id(path)[:2] / f"{build_id(path)[2:]}.debug"
    debug.parent.mkdir(parents=True)
    run("objcopy", "--only-keep-debug", path, debug)
    run("strip", path)
    verdict, answers = symbolize(path, offsets, build_id(path), [tmp_path / "root"])
    assert verdict["level"] == "full"
    named = [frames for frames in expected if frames and frames[-1][1]]
    assert [frames for frames in answers if frames and frames[-1][1]] == named


def test_a_package_of_another_program(tmp_path):
    need("dwp")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    path, dwo = split_program(tmp_path / "a", "gcc", 4)
    PARTS["first.c"], kept = PARTS["first.c"].replace("n + 1", "n + 2"), PARTS["first.c"]
    try:
        _, others = split_program(tmp_path / "b", "gcc", 4)
    finally:
        PARTS["first.c"] = kept
    run("dwp", *others, "-o", f"{path}.dwp")
    for file in dwo:
        file.unlink()
    verdict, answers = symbolize(path, [symbols_of(path, "first")[0]], build_id(path))
    assert "first" == answers[0][-1][0] and not any(frame[4] for frame in answers[0])


def test_a_package_that_is_damaged(tmp_path):
    """Bytes of its index and units changed: it is read as far as it goes, and ends."""
    need("dwp")
    path, dwo = split_program(tmp_path, "gcc", 4)
    package = tmp_path / "program.dwp"
    run("dwp", *dwo, "-o", package)
    for file in dwo:
        file.unlink()
    whole, offsets = package.read_bytes(), instructions(path)
    for seed in range(60):
        chance = random.Random(seed)
        data = bytearray(whole)
        for _ in range(1 + seed % 8):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7f, 0x80, 0xff, chance.randrange(256)))
        package.write_bytes(data[:len(data) if seed % 4 else chance.randrange(len(data))])
        verdict, _ = symbolize(path, offsets, build_id(path))
        assert verdict["level"] in ("full", "lines", "symtab"), seed
        assert "took too long" not in (verdict["reason"] or ""), seed
