"""Recording here, looking up names there: mallograph symbolize."""

import json
import os
import shutil
import sqlite3
import subprocess

import pytest

import symbols_help
from symbols_help import Program, build_id

# Allocates through wrappers, so that titles need names, and inlined calls at that.
CPP = """\
#include <map>
#include <string>
#include <vector>
struct Shelf {
	std::vector<std::string> books;
	std::map<int, std::string> index;
	void put(int n)
	{
		books.push_back(std::string(100 + n, 'x'));
		index[n] = books.back();
	}
};
static __attribute__((noinline)) void fill(Shelf &shelf)
{
	for (int n = 0; n < 20; n++)
		shelf.put(n);
}
int main()
{
	Shelf shelf;
	fill(shelf);
	return 0;
}
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "p").mkdir()
    return Program(tmp_path / "p")


@pytest.fixture
def shelf(tmp_path):
    (tmp_path / "shelf.cpp").write_text(CPP)
    symbols_help.run("g++", "-g", "-O2", "-Wl,--build-id", tmp_path / "shelf.cpp", "-o", tmp_path / "shelf")
    return tmp_path / "shelf"


def sites(run, profile):
    """Everything about sites but in which order ties come."""
    report = json.loads(run("report", "--json", "--sites", "all", profile).stdout)
    return sorted(json.dumps(site, sort_keys=True) for site in report["sites"])


def titles(path):
    with sqlite3.connect(path) as db:
        return sorted(db.execute("select allocs, alloc_bytes, title_function, title_file, title_line from v_site"),
                      key=str)


def lines(run, profile):
    report = json.loads(run("report", "--json", "--sites", "all", profile).stdout)
    return {frame["function"]: frame["line"] for site in report["sites"] for frame in site["stack"]
            if frame["module"].endswith("/program") and frame["line"]}


EXPECTED = {"hidden": 6, "shown": 10, "main": 14}


def done(run, *words):
    result = run("symbolize", *words, text=True)
    assert result.returncode == 0, result.stderr
    return result


def test_it_is_as_if_it_had_been_done_at_once(run, shelf, tmp_path):
    for name, words in (("whole.mgp", []), ("later.mgp", ["--no-symbols"])):
        assert run("-q", *words, "-o", name, shelf).returncode == 0
    assert sites(run, "later.mgp") != sites(run, "whole.mgp")
    result = done(run, "later.mgp")
    assert "symbolized later.mgp: " in result.stderr and result.stdout == ""
    assert sites(run, "later.mgp") == sites(run, "whole.mgp")
    assert titles(tmp_path / "later.mgp") == titles(tmp_path / "whole.mgp")
    assert "Shelf::put(int)" in {row[2] for row in titles(tmp_path / "later.mgp")}


VDSO = """\
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <time.h>
#include <ucontext.h>
static uintptr_t vdso;
static void on_step(int number, siginfo_t *info, void *context)
{
	uintptr_t pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	if (pc - vdso < 2 * 4096)
		*(volatile char *)malloc(8) = 1;
}
int main(void)
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	struct timespec now;

	vdso = getauxval(AT_SYSINFO_EHDR);
	sigaction(SIGTRAP, &action, NULL);
	__asm__ volatile("pushfq\\n\\torq $0x100, (%%rsp)\\n\\tpopfq" ::: "memory", "cc");
	clock_gettime(CLOCK_MONOTONIC, &now);
	__asm__ volatile("pushfq\\n\\tandq $~0x100, (%%rsp)\\n\\tpopfq" ::: "memory", "cc");
	return 0;
}
"""


def test_the_kernels_own_code_too(run, cc, tmp_path):
    """The vdso, which is in no file, if it is that of this kernel."""
    program = cc("through-vdso", VDSO)
    for name, words in (("whole.mgp", []), ("later.mgp", ["--no-symbols"])):
        assert run("-q", *words, "-o", name, program).returncode == 0
    assert "vdso" not in done(run, "--list-missing", "later.mgp").stdout
    done(run, "later.mgp")
    states = [run("query", "--csv", "select symbols from module where kind = 'vdso'", name, text=True).stdout
              for name in ("whole.mgp", "later.mgp")]
    assert states[0] == states[1] and "pending" not in states[0]
    functions = [sorted({frame["function"] for site in json.loads(run("report", "--json", "--sites", "all", name).stdout)["sites"]
                         for frame in site["stack"] if "vdso" in (frame["module"] or "")}, key=str)
                 for name in ("whole.mgp", "later.mgp")]
    assert functions[0] == functions[1] and any("clock_gettime" in (name or "") for name in functions[0])


def dump(path):
    """All rows of what symbols do not change, with strings for their ids."""
    strings = {"process": ("exe", "cwd"), "thread": ("name",), "module": ("path",)}
    changed = {"module": ("symbols", "debug_file", "reason"), "site": ("title", "title_depth")}
    with sqlite3.connect(path) as db:
        db.row_factory = sqlite3.Row
        text = dict(db.execute("select id, s from string").fetchall())
        tables = [row[0] for row in db.execute("select name from sqlite_schema where type = 'table'")]
        return {table: sorted((
            tuple(text.get(row[key]) if key in strings.get(table, ()) else row[key]
                  for key in row.keys() if key not in changed.get(table, ()))
            for row in db.execute(f"select * from {table}")), key=repr)
            for table in tables if table not in ("string", "line")}


def test_all_else_is_the_same(run, program, tmp_path):
    """With bytes in names that are no text, and text that looks like such."""
    odd = os.fsencode(tmp_path) + b"/odd\xff\\xff\\x5c"
    os.mkdir(odd)
    shutil.copy(program.path, odd + b"/program")
    assert run("-q", "--no-symbols", "-o", "x.mgp", odd + b"/program", b"\xfe").returncode == 0
    shutil.copy(tmp_path / "x.mgp", tmp_path / "before.mgp")
    done(run, "x.mgp")
    assert dump(tmp_path / "x.mgp") == dump(tmp_path / "before.mgp")
    assert len(dump(tmp_path / "x.mgp")["block"]) > 0
    assert lines(run, "x.mgp") == EXPECTED


def test_on_another_machine(run, program, tmp_path):
    """The program is not here; a tree has it, and its debug file."""
    debug = program.separate(program.by_build_id())
    assert run("-q", "--no-symbols", "-o", "x.mgp", program.path).returncode == 0
    id = build_id(program.path)
    tree = tmp_path / "tree"
    for source, place in (program.path, tree / "bin" / "program"), \
            (debug, tree / "usr/lib/debug/.build-id" / id[:2] / f"{id[2:]}.debug"):
        place.parent.mkdir(parents=True)
        shutil.move(source, place)
    done(run, "x.mgp")
    assert lines(run, "x.mgp") == {}
    done(run, "--sysroot", tree, "x.mgp")
    assert lines(run, "x.mgp") == EXPECTED


def test_build_ids_decide_never_names(run, program):
    assert run("-q", "--no-symbols", "-o", "x.mgp", program.path).returncode == 0
    symbols_help.run("gcc", "-g", "-O1", "-rdynamic", "-Wl,--build-id", "-DOTHER=1", "-O2", program.source,
                     "-o", program.path)
    done(run, "x.mgp")
    assert lines(run, "x.mgp") == {}


def test_debug_files_that_came_later(run, program, tmp_path):
    """Names of exported functions alone, then all."""
    id = build_id(program.path)
    debug = program.separate(tmp_path / "aside")
    assert run("-q", "-o", "x.mgp", program.path).returncode == 0
    before = titles(tmp_path / "x.mgp")
    result = done(run, "x.mgp", "--debug-dir", program.root)
    assert "nothing new" in result.stderr and "mallograph doctor x.mgp" in result.stderr
    place = program.by_build_id(id)
    place.parent.mkdir(parents=True)
    shutil.copy(debug, place)
    done(run, "x.mgp", "--debug-dir", program.root)
    assert lines(run, "x.mgp") == EXPECTED
    assert titles(tmp_path / "x.mgp") != before
    info = run("info", "x.mgp", text=True).stdout
    assert f"from {place}" in info


def test_what_is_known_is_not_lost(run, program, tmp_path):
    assert run("-q", "-o", "x.mgp", program.path).returncode == 0
    program.path.unlink()
    known = lines(run, "x.mgp")
    assert known == EXPECTED
    assert done(run, "x.mgp").returncode == 0 and lines(run, "x.mgp") == known
    done(run, "-o", "y.mgp", "x.mgp")
    assert lines(run, "y.mgp") == known and titles(tmp_path / "y.mgp") == titles(tmp_path / "x.mgp")


def test_wrappers_named_when_it_was_recorded_stay_wrappers(run, program, tmp_path):
    for name, words in (("whole.mgp", []), ("later.mgp", ["--no-symbols"])):
        run("-q", *words, "--alloc-fn", "hidden", "--alloc-fn", "sho*", "-o", name, program.path)
    done(run, "later.mgp")
    assert titles(tmp_path / "later.mgp") == titles(tmp_path / "whole.mgp")
    assert "main" in {row[2] for row in titles(tmp_path / "later.mgp")}


def test_missing_modules_for_a_package_manager(run, program, tmp_path):
    id = build_id(program.path)
    program.separate(program.by_build_id())
    assert run("-q", "--no-symbols", "-o", "x.mgp", program.path).returncode == 0
    before = (tmp_path / "x.mgp").read_bytes()
    result = done(run, "--list-missing", "x.mgp")
    assert f"{id}\t{program.path}" in result.stdout.splitlines() and result.stderr == ""
    result = done(run, "--list-missing", "--debug-dir", program.root, "x.mgp")
    assert str(program.path) not in result.stdout
    assert (tmp_path / "x.mgp").read_bytes() == before


def test_where_it_goes(run, program, tmp_path):
    assert run("-q", "--no-symbols", "-o", "100%%.mgp", program.path).returncode == 0
    (tmp_path / "link.mgp").symlink_to("100%.mgp")
    before = (tmp_path / "100%.mgp").read_bytes()
    done(run, "-o", "%n-new.mgp", "100%.mgp")
    assert (tmp_path / "100%.mgp").read_bytes() == before
    assert lines(run, "100%.mgp-new.mgp") == EXPECTED
    # A link stays one; left out, it is the newest here.
    done(run, "link.mgp")
    assert (tmp_path / "link.mgp").is_symlink() and lines(run, "100%.mgp") == EXPECTED
    os.utime(tmp_path / "100%.mgp-new.mgp", (1, 1))
    assert "100%.mgp" in done(run).stderr
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


@pytest.mark.parametrize("words, code, text", [
    (["a", "b"], 2, "what is b"), (["-o", "x", "--list-missing"], 2, "--list-missing"), (["-o", "%q"], 2, "%q"),
    (["nothing.mgp"], 125, "nothing.mgp"), ([], 125, "no profile"), (["text"], 125, "not a mallograph profile"),
    (["x.mgl"], 125, "ledger"),
])
def test_what_makes_no_sense(run, tmp_path, words, code, text):
    if words == ["x.mgl"]:
        run("-q", "-o", "x.mgl", "true")
    if words == ["text"]:
        (tmp_path / "text").write_text("hello " * 100)
    result = run("symbolize", *words, text=True)
    assert result.returncode == code and text in " ".join(result.stderr.split())


def test_a_failure_leaves_the_file_as_it_is(run, program, tmp_path, in_namespace, mallograph):
    """A full disk, in the middle of it."""
    assert run("-q", "--no-symbols", "-o", "x.mgp", program.path).returncode == 0
    result = in_namespace(
        'mkdir small && mount -t tmpfs -o size=500k none small && cp x.mgp small/; cat /dev/zero >small/rest; '
        'truncate -s -8k small/rest; "$1" symbolize small/x.mgp; echo $?; cmp x.mgp small/x.mgp && ls -A small', mallograph, env=os.environ, cwd=tmp_path)
    assert result.stdout.split() == ["125", "rest", "x.mgp"], result.stderr
    assert "symbolized" not in result.stderr


DAMAGE = [
    "update loc set module = 999", "delete from loc", "update line set loc = loc + 100000",
    "update site set stack = 999999", "update stack set parent = id + 1 where id > 1", "delete from module",
    "update module set path = 999999", "update line set function = 999999", "update stack set loc = 999999",
    "update module set build_id = 'no such id'", "update module set symbols = 'pending', kind = null",
    "update loc set offset = null", "delete from stack",
    "create trigger t before insert on line begin delete from site; end",
    "update meta set value = 0 where key = 'finished'",
]


@pytest.mark.parametrize("sql", DAMAGE)
def test_profiles_that_contradict_themselves(run, program, tmp_path, sql):
    """End as a message, or as a profile that can be read as well as this one could."""
    assert run("-q", "-o", "x.mgp", program.path).returncode == 0
    with sqlite3.connect(tmp_path / "x.mgp") as db:
        db.execute(sql)
        db.execute("update module set symbols = 'pending' where kind = 'file' and symbols <> 'full'")
    db.close()
    read = run("report", "--json", "x.mgp").returncode
    result = run("symbolize", "-o", "y.mgp", "x.mgp", text=True)
    assert result.returncode in (0, 125)
    if result.returncode == 0:
        assert run("report", "--json", "y.mgp").returncode in (0, read)
        with sqlite3.connect(tmp_path / "y.mgp") as db:
            assert db.execute("select count(*) from sqlite_schema where type = 'trigger'").fetchone() == (0,)
    else:
        assert not (tmp_path / "y.mgp").exists() and result.stderr


def test_the_summary_names_it(run, program):
    summary = run("--no-symbols", "-o", "x.mgp", program.path, text=True).stderr
    assert "program: not looked for yet\n         to look for them:  mallograph symbolize\n" in summary
