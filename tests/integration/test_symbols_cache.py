"""What was read once is not read again, as long as nothing the search looked at has changed."""

import json
import os
import pathlib
import random
import re
import shutil
import sqlite3
import subprocess
import time

import pytest

import symbols_help
from symbols_help import SOURCES, TOOL, build_id, instructions, need, symbolize


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("cache") / "program"
    symbols_help.run("gcc", "-O2", "-g", "-Wl,--build-id", SOURCES / "inlines.c", "-o", path)
    return path


@pytest.fixture(scope="module")
def offsets(program):
    return instructions(program)


@pytest.fixture
def cache(tmp_path):
    path = tmp_path / "home" / "cache"
    path.parent.mkdir(mode=0o700)
    return path


def ask(path, offsets, cache, options=(), directories=(), **more):
    if "build_id" not in more:
        more["build_id"] = build_id(path)
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), **more.pop("environ", {})}
    return symbolize(path, offsets, options=["-c", *options], directories=directories, env=env,
                     **more)


def kept(cache):
    return sorted((cache / "mallograph").glob("*.symbols"))


def told(verdict):
    return {key: verdict[key] for key in ("level", "reason", "debug_file")}


def test_what_was_read_once(program, offsets, cache):
    first, answers = ask(program, offsets, cache)
    assert first["readers"] == 1 and first["addresses_read"] == len(set(offsets))
    second, again = ask(program, offsets, cache)
    assert second["readers"] == second["addresses_read"] == 0
    assert again == answers and told(second) == told(first)
    assert answers == symbolize(program, offsets, build_id=build_id(program))[1]
    assert cache.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in kept(cache)] == [0o600]


def test_its_last_use_is_noted(program, offsets, cache):
    """By it the oldest are found."""
    ask(program, offsets, cache)
    (path,) = kept(cache)
    os.utime(path, (time.time() - 100_000,) * 2)
    ask(program, offsets, cache)
    assert time.time() - path.stat().st_mtime < 60


def test_no_elf_file_is_opened(program, offsets, cache, sanitized):
    need("strace")
    if sanitized:
        pytest.skip("the leak sanitizer cannot be traced")
    ask(program, offsets, cache)
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    trace = cache.parent / "trace"
    for expected in (0, 1):
        if expected:
            shutil.rmtree(cache)
        symbols_help.run("strace", "-f", "-e", "openat,open", "-o", trace, TOOL, "-c", program,
            build_id(program), input=f"{offsets[0]:x}\n", env=environ)
        opened = sum(f'"{program}"' in line for line in trace.read_text().splitlines())
        assert (opened > 0) == expected


def test_more_addresses(program, offsets, cache):
    """Those alone are read, and what was not asked for is still known."""
    expected = symbolize(program, offsets, build_id=build_id(program))[1]
    parts = [offsets[::2], offsets[1::2], offsets]
    asked = []
    for part in parts:
        verdict, answers = ask(program, part, cache)
        asked.append(verdict["addresses_read"])
        assert answers == [expected[offsets.index(offset)] for offset in part]
    assert asked == [len(parts[0]), len(parts[1]), 0]
    # Addresses behind all others, between, and where nothing is.
    odd = [0, 1, 2**40, *offsets[:3]]
    first = ask(program, odd, cache)
    assert first[0]["addresses_read"] == 3
    second = ask(program, odd, cache)
    assert second[0]["addresses_read"] == 0 and second[1] == first[1]


def stripped(program, directory):
    symbols_help.run("objcopy", "--only-keep-debug", program, directory / "kept.debug")
    symbols_help.run("strip", "-o", directory / "program", program)
    identity = build_id(program)
    return (directory / "program", directory / "kept.debug",
            directory / "debug" / ".build-id" / identity[:2] / f"{identity[2:]}.debug")


def test_a_debug_file_that_came_since(program, offsets, tmp_path, cache):
    path, debug, place = stripped(program, tmp_path)
    place.parent.mkdir(parents=True)
    directories = [tmp_path / "debug"]
    full = symbolize(program, offsets)[1]
    for _ in range(2):
        before, _ = ask(path, offsets, cache, directories=directories)
        assert before["level"] != "full"
    assert before["readers"] == 0
    for _ in range(2):
        shutil.copy(debug, place)
        after, answers = ask(path, offsets, cache, directories=directories)
        assert after["level"] == "full" and after["debug_file"] == str(place)
        assert after["readers"] == 1 and answers == full
        again, answers = ask(path, offsets, cache, directories=directories)
        assert again["readers"] == 0 and told(again) == told(after) and answers == full
        place.unlink()
        gone, _ = ask(path, offsets, cache, directories=directories)
        assert gone["level"] != "full" and gone["readers"] == 1
    # Where it was refused, and then is the right one.
    place.write_bytes(b"not ELF")
    ask(path, offsets, cache, directories=directories)
    assert "not an ELF" in ask(path, offsets, cache, directories=directories)[0]["reason"]
    shutil.copy(debug, place)
    assert ask(path, offsets, cache, directories=directories)[0]["level"] == "full"


def test_a_program_that_changed_since(program, offsets, tmp_path, cache):
    path = tmp_path / "program"
    shutil.copy(program, path)
    ask(path, offsets, cache)
    os.utime(path, ns=(1, 1))
    assert ask(path, offsets, cache)[0]["readers"] == 1
    assert ask(path, offsets, cache)[0]["readers"] == 0
    # Another file of the same size and times.
    shutil.copy(path, tmp_path / "other")
    os.utime(tmp_path / "other", ns=(1, 1))
    os.rename(tmp_path / "other", path)
    assert ask(path, offsets, cache)[0]["readers"] == 1
    path.unlink()
    assert ask(path, offsets, cache, build_id=build_id(program))[0]["level"] == "none"


def test_where_it_is_looked_for_is_part_of_it(program, offsets, tmp_path, cache):
    path, debug, place = stripped(program, tmp_path)
    place.parent.mkdir(parents=True)
    shutil.move(debug, place)
    levels = [ask(path, offsets, cache, directories=directories)[0]["level"]
              for _ in range(2) for directories in ([], [tmp_path / "debug"], [tmp_path])]
    assert levels == ["none", "full", "none"] * 2 or levels == ["symtab", "full", "symtab"] * 2
    assert len(kept(cache)) == 3


def test_without_a_build_id_nothing_is_kept(offsets, tmp_path, cache):
    symbols_help.run("gcc", "-g", "-Wl,--build-id=none", SOURCES / "inlines.c", "-o", tmp_path / "program")
    for _ in range(2):
        verdict, _ = ask(tmp_path / "program", offsets, cache, build_id=None)
        assert verdict["level"] == "full" and verdict["readers"] == 1
    assert not kept(cache)


def test_split_debug_information(tmp_path, cache):
    """Its files are opened by libdw, and may come and go."""
    symbols_help.run("gcc", "-g", "-gsplit-dwarf", "-Wl,--build-id", SOURCES / "inlines.c",
        "-o", tmp_path / "program", cwd=tmp_path)
    (split,) = tmp_path.glob("*.dwo")
    path, places = tmp_path / "program", instructions(tmp_path / "program")
    assert [ask(path, places, cache)[0]["readers"] for _ in range(2)] == [1, 0]
    split.rename(tmp_path / "away")
    lines, _ = ask(path, places, cache)
    assert lines["level"] == "lines" and lines["readers"] == 1
    assert ask(path, places, cache)[0]["readers"] == 0
    (tmp_path / "away").rename(split)
    assert ask(path, places, cache)[0]["level"] == "full"


@pytest.mark.parametrize("fault, level", [("raise(SIGSEGV)", "symtab"), ("for (;;) pause()", "symtab"),
                                          ("exit(1)", "symtab")])
def test_a_reader_that_failed(program, offsets, tmp_path, cache, may_preload, fault, level):
    (tmp_path / "fault.c").write_text(
        "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        f"void *dwarf_getsrc_die(void *unit, unsigned long at)\n{{\n{fault};\nreturn 0;\n}}\n")
    symbols_help.run("gcc", "-shared", "-fPIC", tmp_path / "fault.c", "-o", tmp_path / "fault.so")
    verdict, _ = ask(program, offsets, cache, options=["-s", "500"],
                     environ={"LD_PRELOAD": str(tmp_path / "fault.so")})
    assert verdict["level"] == level and "reading its debug information" in verdict["reason"]
    assert not kept(cache)
    assert ask(program, offsets, cache)[0]["level"] == "full"


def test_damaged_files_of_the_cache(program, offsets, cache):
    """Whatever stands there, the answers are right, and it is put right."""
    expected = ask(program, offsets, cache)
    (path,) = kept(cache)
    whole = path.read_bytes()
    chance = random.Random(5)
    for i in range(40):
        damaged = bytearray(whole)
        if i < 20:
            damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        else:
            del damaged[len(whole) * (i - 20) // 20:]
        path.write_bytes(damaged)
        verdict, answers = ask(program, offsets, cache)
        assert verdict["readers"] == 1 and answers == expected[1]
        assert path.read_bytes() == whole
    path.write_bytes(whole + b"more")
    assert ask(program, offsets, cache)[0]["readers"] == 1
    path.unlink()
    os.mkfifo(path)
    assert ask(program, offsets, cache)[0]["readers"] == 1
    assert ask(program, offsets, cache)[0]["readers"] == 0
    path.unlink()
    path.symlink_to(cache / "elsewhere")
    assert ask(program, offsets, cache)[1] == expected[1]
    assert not (cache / "elsewhere").exists() and not path.is_symlink()


def test_of_another_program(program, offsets, tmp_path, cache):
    """A tool that was built anew may know more."""
    ask(program, offsets, cache)
    shutil.copy(TOOL, tmp_path / "tool")
    answer = symbols_help.run(tmp_path / "tool", "-c", program, build_id(program), input="1000\n",
                 env={**os.environ, "XDG_CACHE_HOME": str(cache)}).stdout
    assert '"readers": 1' in answer and len(kept(cache)) == 1


def test_many_processes_at_once(program, offsets, cache):
    expected = dict(zip(offsets, symbolize(program, offsets, build_id=build_id(program))[1]))
    chance = random.Random(1)
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    for _ in range(4):
        children = []
        for _ in range(12):
            part = sorted(chance.sample(offsets, len(offsets) // 3))
            child = subprocess.Popen([TOOL, "-c", program, build_id(program)], text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)
            child.stdin.write("".join(f"{offset:x}\n" for offset in part))
            child.stdin.close()
            children.append((child, part))
        chance.choice(children)[0].kill()
        for child, part in children:
            lines = child.stdout.read().splitlines()
            if child.wait() == 0:
                answers = [[tuple(f) for f in json.loads(line)] for line in lines[1:]]
                assert answers == [expected[offset] for offset in part]
    assert len(kept(cache)) == 1
    assert ask(program, offsets, cache)[1] == list(expected.values())


def test_what_a_writer_left_goes(program, offsets, cache):
    (cache / "mallograph").mkdir(parents=True, mode=0o700)
    cache.chmod(0o700)
    old, young, other = (cache / "mallograph" / name for name in ("1.new", "2.new", "notes.txt"))
    for path in (old, young, other):
        path.write_text("x")
    os.utime(old, (time.time() - 7200,) * 2)
    os.utime(other, (time.time() - 7200,) * 2)
    ask(program, offsets, cache)
    assert not old.exists() and young.exists() and other.exists()


def no_cache(program, offsets, cache, **more):
    verdict, _ = ask(program, offsets, cache, **more)
    assert verdict["level"] == "full" and verdict["readers"] == 1
    assert not (cache / "mallograph").exists() or not kept(cache)


def test_none_where_it_cannot_be(program, offsets, tmp_path, cache):
    no_cache(program, offsets, cache, environ={"MALLOGRAPH_CACHE": "off"})
    no_cache(program, offsets, tmp_path / "absent" / "cache")
    no_cache(program, offsets, pathlib.Path("/proc/nowhere"))
    (tmp_path / "file").write_text("")
    no_cache(program, offsets, tmp_path / "file")
    # Open for others to write.
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    no_cache(program, offsets, shared)
    # Where the group may write beside it, but not into it.
    shared.chmod(0o775)
    (tmp_path / "ours").mkdir(mode=0o700)
    (shared / "mallograph").symlink_to(tmp_path / "ours")
    no_cache(program, offsets, shared)
    (shared / "mallograph").unlink()
    (shared / "mallograph").mkdir()
    (shared / "mallograph").chmod(0o770)
    no_cache(program, offsets, shared)
    (shared / "mallograph").chmod(0o700)
    ask(program, offsets, shared)
    assert len(kept(shared)) == 1 and not list((tmp_path / "ours").iterdir())


def test_the_home_directory_else(program, offsets, tmp_path):
    home = tmp_path / "me"
    home.mkdir(mode=0o700)
    env = {key: value for key, value in os.environ.items() if key != "XDG_CACHE_HOME"}
    for value in (None, "", "relative"):
        more = {} if value is None else {"XDG_CACHE_HOME": value}
        shutil.rmtree(home / ".cache", ignore_errors=True)
        symbolize(program, offsets, options=["-c"], build_id=build_id(program),
                  env={**env, "HOME": str(home), **more}, cwd=tmp_path)
        assert len(kept(home / ".cache")) == 1
    assert not (tmp_path / "relative").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_none_of_another_user(program, offsets, tmp_path, cache):
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 65534, 65534)
    no_cache(program, offsets, theirs)
    assert not list(theirs.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
def test_none_with_the_rights_of_another(program, offsets, tmp_path, cache):
    """Set-uid: the environment is not to be trusted."""
    tool = tmp_path / "tool"
    shutil.copy(TOOL, tool)
    os.chown(tool, 65534, 65534)
    tool.chmod(0o4755)
    for directory in (cache, *cache.parents):
        if directory == tmp_path.parent.parent:
            break
        directory.mkdir(exist_ok=True)
        directory.chmod(0o755)
    os.chown(cache, 65534, 65534)
    done = symbols_help.run(tool, "-c", program, build_id(program), input="1000\n", check=False,
               env={**os.environ, "XDG_CACHE_HOME": str(cache)})
    if done.returncode or '"readers": 1' not in done.stdout:
        pytest.skip("a set-uid program does not run here")
    assert not (cache / "mallograph").exists()


def test_sixty_four_processes_of_one_program(run, build, tmp_path, cache):
    """Its debug information is read once; of a second run, not at all."""
    counts = []
    for name in ("first", "second"):
        done = run("-q", "-o", f"{name}.mgp", "--", build / "tests/programs/forks", tmp_path / name,
                   "spawn", "64", text=True,
                   env={**os.environ, "XDG_CACHE_HOME": str(cache), "MALLOGRAPH_LOG": "symbols:info"})
        assert done.returncode == 0, done.stderr
        counts += re.findall(r"(\d+) modules read by (\d+) processes, (\d+) from the cache; "
                             r"(\d+) addresses read, (\d+) from the cache", done.stderr)
    profiles = [sqlite3.connect(tmp_path / f"{name}.mgp") for name in ("first", "second")]
    processes, modules = (profiles[0].execute(f"select count(*) from {what}").fetchone()[0]
                          for what in ("process", "module where symbols = 'full'"))
    (first, second) = (tuple(map(int, count)) for count in counts)
    assert processes == 65 and 0 < modules <= first[0] < 8
    assert first[1] >= 1 and first[2] == first[4] == 0 and first[3] > 4
    assert second == (0, 0, first[0], 0, first[3])
    names = [sorted(profile.execute(
        "select f.s, p.s, line, col from line left join string f on f.id = function"
        " left join string p on p.id = file").fetchall(), key=str) for profile in profiles]
    assert names[0] == names[1] and any(row[0] == "main" for row in names[0])
