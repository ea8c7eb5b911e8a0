"""Damaged and malicious files end as fewer symbols and a reason: no crash, no hang."""

import os
import random
import struct
import subprocess
import time

import pytest

import hostile_elves
from hostile_elves import START
from symbols_help import SOURCES, TOOL, build_id, instructions, run, symbolize, symbols_of


# Nothing in them has a name.
NAMELESS = ("symbols_of_no_size",)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "program"
    run("gcc", "-O2", "-g", "-rdynamic", SOURCES / "inlines.c", "-o", path)
    return path


@pytest.fixture(scope="module")
def offsets(program):
    return instructions(program)


def ask(path, offsets, **more):
    start = time.monotonic()
    verdict, answers = symbolize(path, offsets, **more)
    assert time.monotonic() - start < (120 if "TSAN_OPTIONS" in os.environ else 20)
    assert verdict["level"] != "pending"
    assert verdict["level"] == "full" or verdict["reason"]
    return verdict, answers


def ask_sanitized(path, offsets):
    """A crash is survived, but a sanitizer's finding is ours."""
    verdict, _ = ask(path, offsets)
    assert "ASAN_OPTIONS" not in os.environ or "crashed" not in (verdict["reason"] or "")
    return verdict


def test_truncated(program, offsets, tmp_path):
    data = program.read_bytes()
    levels = set()
    for i in range(60):
        (tmp_path / "cut").write_bytes(data[: len(data) * i // 60])
        levels.add(ask_sanitized(tmp_path / "cut", offsets)["level"])
    assert "none" in levels


@pytest.mark.parametrize("name", hostile_elves.CASES)
def test_made_to_do_harm(name, tmp_path, sanitized):
    """None crashes a reader, and none takes more time or memory than its size allows."""
    data = hostile_elves.CASES[name]()
    (tmp_path / "program").write_bytes(data)
    asked = [START + i * 6 for i in range(10_000)]
    verdict, answers = ask(tmp_path / "program", asked)
    assert "reading" not in (verdict["reason"] or ""), verdict["reason"]
    assert sanitized or verdict["reader_kib"] * 1024 < (600 << 20) + 17 * len(data)
    assert name in NAMELESS or answers[0] and answers[0][-1][0]


def sections(data):
    """(offset of the section header, name, file offset, size) of each section."""
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3a)
    text, = struct.unpack_from("<Q", data, table + names * size + 0x18)
    for i in range(count):
        at = table + i * size
        name, = struct.unpack_from("<I", data, at)
        offset, length = struct.unpack_from("<QQ", data, at + 0x18)
        end = data.index(b"\0", text + name)
        yield at, data[text + name:end].decode(), offset, length


DAMAGED = [".debug_info", ".debug_abbrev", ".debug_line", ".debug_rnglists", ".debug_str",
           ".debug_line_str", ".symtab", ".strtab", ".dynsym", "headers"]


@pytest.mark.parametrize("section", DAMAGED)
def test_damaged(program, offsets, tmp_path, section):
    """Bytes of one section at a time, random or extreme; more rounds with MALLOGRAPH_ROUNDS."""
    data = program.read_bytes()
    places = {name: (offset, offset + length) for _, name, offset, length in sections(data)}
    table, = struct.unpack_from("<Q", data, 0x28)
    places["headers"] = (table, len(data))
    start, end = places[section]
    chance = random.Random(section)
    for _ in range(int(os.environ.get("MALLOGRAPH_ROUNDS", "12"))):
        damaged = bytearray(data)
        for _ in range(chance.choice([1, 1, 4, 40])):
            at = chance.randrange(start, end)
            count = chance.choice([1, 1, 2, 4, 8])
            value = chance.choice([b"\0" * 8, b"\xff" * 8, b"\x7f" * 8, chance.randbytes(8)])
            damaged[at:min(at + count, end)] = value[:min(count, end - at)]
        (tmp_path / "damaged").write_bytes(damaged)
        ask_sanitized(tmp_path / "damaged", offsets)


def test_sections_out_of_range(program, offsets, tmp_path):
    data = program.read_bytes()
    for at, name, _, _ in sections(data):
        if not name.startswith((".debug", ".symtab", ".strtab", ".dynsym", ".dynstr", ".note")):
            continue
        for field, value in ((0x18, 1 << 63), (0x20, 1 << 62), (0x20, len(data)), (0x28, 0xffff),
                             (0x38, 0), (0x38, 1 << 60)):
            damaged = bytearray(data)
            struct.pack_into("<I" if field == 0x28 else "<Q", damaged, at + field, value)
            (tmp_path / "damaged").write_bytes(damaged)
            ask_sanitized(tmp_path / "damaged", offsets[:50])


def test_an_abstract_origin_that_is_its_own(tmp_path, program, offsets):
    """References in a circle: every reference of the unit to one and the same place."""
    listing = run("readelf", "--debug-dump=info", program).stdout
    data = program.read_bytes()
    info = next(offset for _, name, offset, _ in sections(data) if name == ".debug_info")
    damaged = bytearray(data)
    changed = 0
    die = 0
    for line in listing.splitlines():
        head = line.split()
        if line.startswith(" <") and "Abbrev Number" in line:
            die = int(line.split("<")[2].split(">")[0], 16)
        elif len(head) > 2 and head[1].strip(":") in (
                "DW_AT_abstract_origin", "DW_AT_specification"):
            at = int(head[0].strip("<>"), 16)
            struct.pack_into("<I", damaged, info + at, die)
            changed += 1
    assert changed > 10
    (tmp_path / "circle").write_bytes(damaged)
    ask_sanitized(tmp_path / "circle", offsets)


def test_a_compressed_section_that_expands_without_end(tmp_path, program, offsets):
    """An honest header of terabytes, and no data to fill it."""
    run("objcopy", "--compress-debug-sections=zlib-gabi", program, tmp_path / "bomb")
    data = bytearray((tmp_path / "bomb").read_bytes())
    changed = 0
    for at, name, offset, _ in list(sections(data)):
        flags, = struct.unpack_from("<Q", data, at + 8)
        if flags & 0x800:
            struct.pack_into("<Q", data, offset + 8, 1 << 42)
            changed += 1
    assert changed > 2
    (tmp_path / "bomb").write_bytes(data)
    ask(tmp_path / "bomb", offsets)


@pytest.fixture(scope="module")
def interposed(tmp_path_factory, may_preload):
    """interposed(body): an environment in which libdw's look-up of a line is body."""
    directory = tmp_path_factory.mktemp("interposed")

    def make(name, body):
        (directory / f"{name}.c").write_text(
            "#include <signal.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
            f"void *dwarf_getsrc_die(void *unit, unsigned long address)\n{{\n{body}\n}}\n")
        run("gcc", "-shared", "-fPIC", "-O1", directory / f"{name}.c", "-o", directory / f"{name}.so")
        return {**os.environ, "LD_PRELOAD": str(directory / f"{name}.so")}

    return make


def expect_names_alone(verdict, answers, program, reason):
    assert verdict["level"] == "symtab"
    assert reason in verdict["reason"], verdict["reason"]
    names = {frame[0] for frames in answers for frame in frames}
    assert {"run", "main", "weigh"} & names


def test_a_reader_that_crashes(program, offsets, interposed):
    verdict, answers = ask(program, offsets, build_id=build_id(program),
                           env=interposed("crash", "raise(SIGSEGV); return 0;"))
    expect_names_alone(verdict, answers, program,
                       "reading its debug information crashed (signal 11)")


def test_a_reader_that_hangs(program, offsets, interposed):
    verdict, answers = ask(program, offsets, build_id=build_id(program), options=["-s", "300"],
                           env=interposed("hang", "for (;;) pause(); return 0;"))
    expect_names_alone(verdict, answers, program, "reading its debug information took too long")


def test_a_reader_that_dawdles(interposed, tmp_path):
    """It says something again and again, but does not get on."""
    (tmp_path / "program").write_bytes(hostile_elves.CASES["inlined_without_end"]())
    verdict, answers = ask(tmp_path / "program", range(START, START + 300), options=["-s", "1000"],
                           env=interposed("slow", "usleep(100000); return 0;"))
    assert "reading its debug information took too long" in verdict["reason"]
    # What it had said by then counts.
    assert len(answers[0]) > 100 and answers[0][0][0] == "g" and len(answers[-1]) == 1


def test_a_reader_that_exits(program, offsets, interposed):
    """As libdw does where memory is short."""
    verdict, answers = ask(program, offsets, build_id=build_id(program),
                           env=interposed("exit", "exit(1); return 0;"))
    expect_names_alone(verdict, answers, program,
                       "reading its debug information took too much memory")


def test_a_reader_that_crashes_on_the_way(program, offsets, interposed):
    """What it had said by then counts."""
    body = "static int calls;\nif (++calls > 100) raise(SIGABRT);\nreturn 0;"
    plenty = [o + i for o in offsets for i in range(1000)]
    for readers in ("1", "4"):
        verdict, answers = ask(program, plenty[:20000], build_id=build_id(program),
                               options=["-w", readers], env=interposed("late", body))
        assert verdict["reason"] == "reading its debug information crashed (signal 6)"
        expect_names_alone(verdict, answers, program, "crashed")


def test_a_reader_that_crashes_whatever_it_does(program, offsets, tmp_path, may_preload):
    (tmp_path / "all.c").write_text(
        "#include <signal.h>\n"
        "void *dwfl_begin(void *callbacks)\n{\n\traise(SIGBUS);\n\treturn callbacks;\n}\n")
    run("gcc", "-shared", "-fPIC", tmp_path / "all.c", "-o", tmp_path / "all.so")
    verdict, answers = ask(program, offsets,
                           env={**os.environ, "LD_PRELOAD": str(tmp_path / "all.so")})
    assert verdict["level"] == "none"
    assert verdict["reason"] == "reading its symbols crashed (signal 7)"
    assert not any(answers)


def test_a_reader_ends_with_its_parent(program, interposed, tmp_path):
    """However that ended."""
    child = subprocess.Popen([TOOL, program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             env=interposed("hang", "for (;;) pause(); return 0;"))
    at, _ = symbols_of(program, "run")
    child.stdin.write(f"{at:x}\n".encode())
    child.stdin.close()
    readers = []
    for _ in range(200):
        listing = open(f"/proc/{child.pid}/task/{child.pid}/children").read().split()
        readers = [int(pid) for pid in listing]
        if readers:
            break
        time.sleep(0.02)
    assert readers
    time.sleep(0.2)
    child.kill()
    child.wait()
    for _ in range(200):
        if not any(os.path.exists(f"/proc/{pid}") for pid in readers):
            return
        time.sleep(0.02)
    assert not readers, "still there"
