"""Where debug information comes from, and what is refused."""

import shutil

import pytest

from symbols_help import (SOURCE, SOURCES, TOOL, Program, build_id, instructions, need, run,
                          symbolize, symbols_of)


@pytest.fixture
def program(tmp_path):
    return lambda *flags, **more: Program(tmp_path, *flags, **more)


def expect_lines(answers, source):
    for name, line in (("hidden", 5), ("shown", 9), ("main", 13)):
        (frame,) = answers[name]
        assert frame[0] == name and frame[1] == str(source) and frame[2] in (line, line + 1)


def tries(verdict):
    """The trace, without the module's own file, which comes first and is there."""
    assert verdict["all_tries"]
    (place, outcome, path, _), *rest = verdict["tries"]
    assert place == "file" and outcome in ("found", "no debug information in it")
    return [(place, outcome, path) for place, outcome, path, _ in rest]


def expect_exported_names(answers):
    assert answers["hidden"] == []
    assert answers["shown"] == [("shown", None, 0, 0, False)]


def test_in_the_file_itself(program):
    p = program()
    verdict, answers = p.ask(build_id(p.path))
    assert verdict["level"] == "full"
    assert verdict["reason"] is None and verdict["debug_file"] is None
    assert tries(verdict) == []
    expect_lines(answers, p.source)


def test_a_separate_file_by_build_id(program):
    """What this layer exists for: .build-id/da/72a2….debug, and no link beside the program."""
    p = program()
    debug = p.separate(p.by_build_id())
    verdict, answers = p.ask(build_id(p.path))
    assert verdict["level"] == "full"
    assert verdict["reason"] is None and verdict["debug_file"] == str(debug)
    assert tries(verdict) == [("build-id", "found", str(debug))]
    expect_lines(answers, p.source)


def test_debug_directories_are_tried_in_order(program, tmp_path):
    p = program()
    p.separate(p.by_build_id())
    id = build_id(p.path)
    verdict, _ = symbolize(p.path, [0], id, [tmp_path / "nowhere", p.root])
    assert verdict["level"] == "full"
    verdict, _ = symbolize(p.path, [0], id, [tmp_path / "nowhere"])
    assert verdict["level"] == "symtab"


class Sysroot:
    """A tree in which a program, recorded as /opt/it/program, has its debug file."""

    recorded = "/opt/it/program"

    def __init__(self, program, tmp_path):
        self.path = tmp_path / "sysroot"
        self.program = program
        self.debug = program.separate(program.by_build_id())
        self.id = build_id(program.path)

    def put(self, source, place):
        place = self.path / str(place).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, place)
        return place

    def ask(self, id=None):
        verdict, answers = symbolize(self.recorded, list(self.program.functions.values()),
                                     id or self.id, options=["-r", f"{self.path}/"])
        return verdict, dict(zip(self.program.functions, answers))


def test_a_sysroot(program, tmp_path):
    p = program()
    tree = Sysroot(p, tmp_path)
    own = tree.put(p.path, tree.recorded)
    debug = tree.put(tree.debug, f"/usr/lib/debug/.build-id/{tree.id[:2]}/{tree.id[2:]}.debug")
    verdict, answers = tree.ask()
    assert verdict["level"] == "full" and verdict["reason"] is None
    assert verdict["debug_file"] == str(debug)
    assert verdict["tries"][0][2] == str(own)
    expect_lines(answers, p.source)

    # Without its own file it is enough.
    own.unlink()
    verdict, answers = tree.ask()
    assert verdict["level"] == "full" and "No such file" in verdict["reason"]
    expect_lines(answers, p.source)
    other = f"{int(tree.id[:2], 16) ^ 1:02x}{tree.id[2:]}"
    assert tree.ask(other)[0]["level"] == "none"


def test_a_sysroot_without_a_tree(program, tmp_path):
    """All files side by side; the build-id tells which is which."""
    p = program()
    tree = Sysroot(p, tmp_path)
    own = tree.put(p.path, "program")
    debug = tree.put(tree.debug, "program.debug")
    verdict, answers = tree.ask()
    assert verdict["level"] == "full" and verdict["debug_file"] == str(debug)
    assert [t[:3] for t in verdict["tries"][:2]] == [
        ["file", "not there", f"{tree.path}{tree.recorded}"],
        ["file", "no debug information in it", str(own)]]
    expect_lines(answers, p.source)


def test_a_link_in_a_sysroot_leads_below_its_debug_directory(program, tmp_path):
    p = program("-Wl,--build-id=none")
    debug = p.separate(tmp_path / "program.dbg")
    run("objcopy", f"--add-gnu-debuglink={debug}", p.path)
    root = tmp_path / "sysroot"
    for source, place in (p.path, root / "opt/it/program"), \
            (debug, root / "usr/lib/debug/opt/it/program.dbg"):
        place.parent.mkdir(parents=True)
        shutil.move(source, place)
    verdict, answers = symbolize("/opt/it/program", list(p.functions.values()), options=["-r", root])
    assert verdict["level"] == "full"
    expect_lines(dict(zip(p.functions, answers)), p.source)


def test_a_module_by_its_own_build_id(program, tmp_path):
    """DIRECTORY/.build-id/xx/yyyy, as distributions link it, where its path is another's now."""
    p = program()
    id = build_id(p.path)
    own = p.root / ".build-id" / id[:2] / id[2:]
    own.parent.mkdir(parents=True)
    shutil.move(p.path, own)
    p.path.write_bytes(open("/bin/true", "rb").read())
    verdict, answers = p.ask(id)
    assert verdict["level"] == "full" and verdict["reason"] is None
    assert verdict["tries"][0][:2] == ["file", "of another build-id"]
    assert verdict["tries"][1][:3] == ["file", "found", str(own)]
    expect_lines(answers, p.source)


def test_a_deleted_file_that_is_back(program):
    """Replaced by itself, as a package installed again."""
    p = program()
    id = build_id(p.path)
    verdict, answers = p.ask(id, f"{p.path} (deleted)")
    assert verdict["level"] == "full" and verdict["reason"] is None
    expect_lines(answers, p.source)
    # Without a build-id nothing tells that it is the same.
    assert p.ask(None, f"{p.path} (deleted)")[0]["level"] == "none"


def test_stripped(program):
    p = program()
    run("strip", p.path)
    id = build_id(p.path)
    verdict, answers = p.ask(id)
    assert verdict["level"] == "symtab"
    assert id in verdict["reason"] and str(p.root) in verdict["reason"]
    assert "exported" in verdict["reason"]
    expect_exported_names(answers)
    # In order, each with what came of it.
    assert tries(verdict)[:4] == [
        ("build-id", "not there", str(p.by_build_id(id))),
        ("build-id", "not there", f"/usr/lib/debug/.build-id/{id[:2]}/{id[2:]}.debug"),
        ("name", "not there", f"{p.path}.debug"),
        ("name", "not there", f"{p.directory}/.debug/program.debug")]


def test_a_debug_file_without_debug_information(program, tmp_path):
    """It serves for its symbol table where nothing better is found."""
    p = program()
    id = build_id(p.path)
    debug = p.separate(p.by_build_id())
    better = tmp_path / "more" / ".build-id" / id[:2] / f"{id[2:]}.debug"
    better.parent.mkdir(parents=True)
    shutil.copy(debug, better)
    run("objcopy", "--strip-debug", debug)
    verdict, answers = p.ask(id)
    assert verdict["level"] == "symtab" and answers["hidden"][0][0] == "hidden"
    assert tries(verdict)[0] == ("build-id", "no debug information in it", str(debug))
    verdict, answers = symbolize(p.path, list(p.functions.values()), id, [p.root, tmp_path / "more"])
    assert verdict["level"] == "full"
    assert tries(verdict) == [("build-id", "no debug information in it", str(debug)),
                              ("build-id", "found", str(better))]
    run("objcopy", "--remove-section=.debug_line", better)
    verdict, answers = symbolize(p.path, list(p.functions.values()), id, [tmp_path / "more"])
    assert ("build-id", "no .debug_line in it", str(better)) in tries(verdict)


def test_symbolize_tool_says_where_a_file_changed_meanwhile(program):
    """Identities are those of the files: the tool compares them with what is there."""
    p = program()
    p.separate(p.by_build_id())
    done = run(TOOL, "-d", p.root, p.path, build_id(p.path), input="1000\n")
    assert done.stderr == ""


def test_another_file_than_the_recorded_one(program):
    p = program()
    id = build_id(p.path)
    recorded = f"{int(id[:2], 16) ^ 1:02x}{id[2:]}"
    verdict, answers = p.ask(recorded)
    assert verdict["level"] == "none"
    assert verdict["tries"][0] == ["file", "of another build-id", str(p.path), id]
    assert recorded in verdict["reason"] and id in verdict["reason"]
    assert set(map(len, answers.values())) == {0}


def test_a_longer_or_shorter_build_id_is_another(program):
    p = program()
    for recorded in (build_id(p.path)[:-2], build_id(p.path) + "00"):
        assert p.ask(recorded)[0]["level"] == "none"


def test_the_debug_file_stands_for_a_file_that_is_gone(program):
    p = program()
    id = build_id(p.path)
    debug = p.separate(p.by_build_id())
    p.path.unlink()
    for path in (p.path, f"{p.path} (deleted)"):
        verdict, answers = p.ask(id, path)
        assert verdict["level"] == "full" and verdict["debug_file"] == str(debug)
        assert verdict["reason"]
        expect_lines(answers, p.source)


def test_a_debug_file_of_another_build(program, tmp_path):
    p = program()
    id = build_id(p.path)
    run("gcc", "-g", "-O2", "-Wl,--build-id", p.source, "-o", tmp_path / "other")
    run("strip", p.path)
    p.by_build_id(id).parent.mkdir(parents=True)
    run("objcopy", "--only-keep-debug", tmp_path / "other", p.by_build_id(id))
    verdict, answers = p.ask(id)
    assert verdict["level"] == "symtab"
    assert f"{p.by_build_id(id)} (of another build-id)" in verdict["reason"]
    expect_exported_names(answers)


def test_a_debug_file_that_is_none(program):
    p = program()
    id = build_id(p.path)
    run("strip", p.path)
    p.by_build_id(id).parent.mkdir(parents=True)
    p.by_build_id(id).write_text("what is this")
    verdict, answers = p.ask(id)
    assert verdict["level"] == "symtab" and "(not an ELF file)" in verdict["reason"]
    expect_exported_names(answers)


@pytest.mark.parametrize("place", ["beside", ".debug", "root"])
def test_debuglink(program, place):
    p = program("-Wl,--build-id=none")
    debug = {"beside": p.directory, ".debug": p.directory / ".debug",
             "root": p.root / str(p.directory).lstrip("/")}[place] / "program.dbg"
    p.separate(debug)
    run("objcopy", f"--add-gnu-debuglink={debug}", p.path)
    verdict, answers = p.ask()
    assert verdict["level"] == "full" and verdict["debug_file"] == str(debug)
    expect_lines(answers, p.source)


def test_a_separate_file_by_name(program):
    """NAME.debug beside it, without a link: if the build-id proves it."""
    p = program()
    debug = p.separate(p.directory / "program.debug")
    verdict, answers = p.ask(build_id(p.path))
    assert verdict["level"] == "full" and verdict["debug_file"] == str(debug)
    expect_lines(answers, p.source)

    run("gcc", "-g", "-O2", "-Wl,--build-id", p.source, "-o", p.directory / "other")
    shutil.copy(p.directory / "other", debug)
    verdict, answers = p.ask(build_id(p.path))
    assert verdict["level"] == "symtab" and f"{debug} (of another build-id)" in verdict["reason"]


def test_debuglink_of_a_program_behind_a_symbolic_link(program, tmp_path):
    p = program("-Wl,--build-id=none")
    debug = p.separate(p.directory / "program.dbg")
    run("objcopy", f"--add-gnu-debuglink={debug}", p.path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "alias").symlink_to(p.path)
    verdict, answers = p.ask(path=tmp_path / "bin" / "alias")
    assert verdict["level"] == "full"
    expect_lines(answers, p.source)


def test_debuglink_with_another_crc(program):
    p = program("-Wl,--build-id=none")
    debug = p.separate(p.directory / "program.dbg")
    run("objcopy", f"--add-gnu-debuglink={debug}", p.path)
    with open(debug, "ab") as file:
        file.write(b"\0")
    verdict, answers = p.ask()
    assert verdict["level"] == "symtab"
    assert f"{debug} (its CRC is not the link's)" in verdict["reason"]
    assert ("link", "its CRC is not the link's", str(debug)) in tries(verdict)
    expect_exported_names(answers)


def test_debuglink_with_the_build_id(program):
    """The build-id is the stronger proof: tools that rewrite debug files forget the CRC."""
    p = program()
    debug = p.separate(p.directory / "program.dbg")
    run("objcopy", f"--add-gnu-debuglink={debug}", p.path)
    with open(debug, "ab") as file:
        file.write(b"\0")
    verdict, answers = p.ask(build_id(p.path))
    assert verdict["level"] == "full"
    expect_lines(answers, p.source)


def test_debuglink_that_leads_elsewhere(program, tmp_path):
    """A link is a name, not a path."""
    p = program("-Wl,--build-id=none")
    (tmp_path / "sub").mkdir()
    debug = p.separate(tmp_path / "sub" / "x.dbg")
    run("objcopy", f"--add-gnu-debuglink={debug}", p.path)
    (tmp_path / "x.dbg").unlink(missing_ok=True)
    data = p.path.read_bytes()
    assert data.count(b"x.dbg\0") == 1
    for link in (b"/x.dbg", b"../x.d"):
        p.path.write_bytes(data.replace(b"x.dbg\0", link[:6]))
        assert p.ask()[0]["level"] == "symtab"


def dwz(program, tmp_path):
    """Two programs whose shared debug information dwz moved to a third file."""
    need("dwz")
    p = program()
    debug = p.separate(p.by_build_id())
    run("gcc", "-g", "-O1", "-rdynamic", "-Wl,--build-id", "-DOTHER", p.source,
        "-o", tmp_path / "other")
    common = p.root / ".dwz" / "common.debug"
    common.parent.mkdir()
    run("dwz", "-m", common, "-M", common, "--odr", debug, tmp_path / "other")
    assert "gnu_debugaltlink" in run("readelf", "-SW", debug).stdout
    return p, common


def test_dwz(program, tmp_path):
    p, _ = dwz(program, tmp_path)
    verdict, answers = p.ask(build_id(p.path))
    assert verdict["level"] == "full" and verdict["reason"] is None
    expect_lines(answers, p.source)


def test_dwz_by_build_id(program, tmp_path):
    p, common = dwz(program, tmp_path)
    moved = p.by_build_id(build_id(common))
    moved.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(common, moved)
    verdict, answers = p.ask(build_id(p.path))
    assert verdict["level"] == "full" and verdict["reason"] is None
    expect_lines(answers, p.source)


def test_dwz_file_missing(program, tmp_path):
    p, common = dwz(program, tmp_path)
    common.unlink()
    verdict, answers = p.ask(build_id(p.path))
    assert str(common) in verdict["reason"] and "missing" in verdict["reason"]
    assert ("dwz", "not there", str(common)) in tries(verdict)
    # The symbol table names the functions; their lines need nothing shared.
    assert {name: frames[0][0] for name, frames in answers.items()} == {n: n for n in answers}


def test_dwz_file_of_another_build_id(program, tmp_path):
    p, common = dwz(program, tmp_path)
    data = bytearray(common.read_bytes())
    id = bytes.fromhex(build_id(common))
    data[data.index(id)] ^= 1
    common.write_bytes(data)
    verdict, answers = p.ask(build_id(p.path))
    assert f"{common} (of another build-id)" in verdict["reason"] or \
        f"{common}, which it shares names with, is of another build-id" in verdict["reason"]
    assert {frames[0][0] for frames in answers.values()} <= {"hidden", "shown", "main"}


def test_minidebuginfo(program, tmp_path):
    need("xz")
    p = program()
    mini = tmp_path / "mini"
    run("objcopy", "--only-keep-debug", p.path, mini)
    run("strip", "--strip-debug", "--remove-section=.comment", mini)
    run("xz", mini)
    run("strip", p.path)
    run("objcopy", f"--add-section=.gnu_debugdata={mini}.xz", p.path)
    verdict, answers = p.ask(build_id(p.path))
    assert verdict["level"] == "symtab" and "exported" not in verdict["reason"]
    assert answers["hidden"] == [("hidden", None, 0, 0, False)]
    assert answers["shown"] == [("shown", None, 0, 0, False)]


@pytest.mark.parametrize("flags", [
    ["-gz=zlib"], ["-no-pie"], ["-no-pie", "-Wl,-Ttext-segment=0x10000000"],
    ["-shared", "-fPIC", "-Wl,-Ttext-segment=0x30000000"], ["-static"], ["-flto"],
])
def test_wherever_it_is_linked_to(program, flags):
    p = program(*flags)
    id = build_id(p.path)
    verdict, answers = p.ask(id)
    assert verdict["level"] == "full"
    expect_lines(answers, p.source)
    p.separate(p.by_build_id())
    verdict, answers = p.ask(id)
    assert verdict["level"] == "full"
    expect_lines(answers, p.source)


ASSEMBLY = """\
	.text
	.globl sized
	.type sized, @function
sized:	call malloc@plt
	ret
	.size sized, .-sized
	.skip 16, 0x90
bare:	call malloc@plt
	ret
.Llocal: ret
	.globl next
next:	ret
	.section .text.other, "ax", @progbits
	ret
	.data
	.globl datum
	.type datum, @object
datum:	.skip 64
	.size datum, 1
	.section .note.GNU-stack
"""


def assemble(tmp_path, *flags):
    (tmp_path / "a.s").write_text(ASSEMBLY)
    run("gcc", "-shared", *flags, tmp_path / "a.s", "-o", tmp_path / "a.so")
    return tmp_path / "a.so", {n: symbols_of(tmp_path / "a.so", n)[0]
                               for n in ("sized", "bare", "next", "datum")}


def names(answers):
    return [frames[0][0] if frames else None for frames in answers]


def test_symbols_reach_as_far_as_their_size(tmp_path):
    path, at = assemble(tmp_path)
    verdict, answers = symbolize(path, [
        at["sized"], at["sized"] + 5, at["sized"] + 6, f"{at['sized'] + 6:x}r", at["bare"] - 1,
        at["bare"], at["next"] - 1, at["next"], at["datum"], at["datum"] + 32,
    ])
    assert verdict["level"] == "symtab"
    assert names(answers) == [
        "sized", "sized", None, "sized", None, "bare", "bare", "next", None, None]


def test_in_a_stripped_file_no_name_goes_further_than_its_size(tmp_path):
    path, at = assemble(tmp_path)
    run("strip", path)
    _, answers = symbolize(path, [at["sized"], at["sized"] + 6, at["bare"], at["next"]])
    assert names(answers) == ["sized", None, None, None]


def test_parts_of_functions_have_the_functions_name(tmp_path):
    """.cold, .part.0 and the like, where only the symbol table tells."""
    run("g++", "-std=c++17", "-O2", SOURCES / "templates.cpp", "-o", tmp_path / "p")
    symbols = run("nm", tmp_path / "p").stdout
    assert ".cold" in symbols
    verdict, answers = symbolize(tmp_path / "p", instructions(tmp_path / "p"))
    found = {frame[0] for frames in answers for frame in frames}
    assert verdict["level"] == "symtab" and "main" in found
    assert not [name for name in found if ".cold" in name or "[clone" in name]


def test_assembly_with_lines(tmp_path):
    path, at = assemble(tmp_path, "-Wa,-g")
    verdict, answers = symbolize(path, [at["bare"], at["sized"]])
    assert answers == [[("bare", str(tmp_path / "a.s"), 8, 0, False)],
                       [("sized", str(tmp_path / "a.s"), 4, 0, False)]]
    assert verdict["level"] in ("lines", "full")


def test_no_functions_at_all(tmp_path):
    (tmp_path / "d.c").write_text("int datum = 1;")
    run("gcc", "-shared", "-nostdlib", tmp_path / "d.c", "-o", tmp_path / "d.so")
    verdict, answers = symbolize(tmp_path / "d.so", [symbols_of(tmp_path / "d.so", "datum")[0]])
    assert verdict["level"] == "none" and "no functions" in verdict["reason"]
    assert answers == [[]]


def test_a_program_of_another_class_and_order(tmp_path):
    """32-bit and big-endian files are read like any other."""
    (tmp_path / "p.c").write_text("int shown(int n) { return n + 1; }")
    if run("gcc", "-m32", "-shared", "-nostdlib", "-fPIC", "-g", tmp_path / "p.c", "-o", tmp_path / "p.so",
           check=False).returncode:
        pytest.skip("no 32-bit compiler")
    at, _ = symbols_of(tmp_path / "p.so", "shown")
    verdict, (frames,) = symbolize(tmp_path / "p.so", [at])
    assert verdict["level"] == "full" and frames[0][0] == "shown" and frames[0][2] == 1


def test_names_of_64_kib(program, tmp_path):
    """In the symbol table and in the debug information."""
    name = "n" * 65000
    source = SOURCE.replace("shown(", f"{name}(")
    (tmp_path / "p.c").write_text(source)
    run("gcc", "-g", "-rdynamic", tmp_path / "p.c", "-o", tmp_path / "p")
    at = [o for o in instructions(tmp_path / "p")]
    for strip in (False, True):
        if strip:
            run("strip", tmp_path / "p")
        _, answers = symbolize(tmp_path / "p", at)
        assert name in {frame[0] for frames in answers for frame in frames}
