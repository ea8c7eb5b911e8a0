"""What a person gets to see: the summary at the end, and the commands that show a profile."""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

LIBRARY = r"""
#include <stdlib.h>
static void *keep[2000];
__attribute__((noinline)) static void *helper(size_t size) { return malloc(size); }
__attribute__((noinline)) static void *below(size_t size) { void *p = helper(size); return p; }
void library_parse(void)
{
	for (int i = 0; i < 2000; i++)
		keep[i] = below(1000);
}
void library_drop(void)
{
	for (int i = 0; i < 2000; i++)
		free(keep[i]);
}
"""

PROGRAM = r"""
#include <stdlib.h>
#include <unistd.h>
void library_parse(void);
void library_drop(void);
static inline __attribute__((always_inline)) void *xmalloc(size_t size) { return malloc(size); }
__attribute__((noinline)) void churn(void) { for (int i = 0; i < 1000; i++) { void *volatile p = malloc(32); free(p); } }
void *left[10];
__attribute__((noinline)) void leave(void) { for (int i = 0; i < 10; i++) left[i] = xmalloc(100); }
int main(int argc, char **argv)
{
	(void)argv;
	library_parse();
	churn();
	leave();
	if (argc > 1)
		pause();
	library_drop();
	return 7;
}
"""


@pytest.fixture(scope="session")
def sample(cc):
    """A program with symbols over a stripped library."""
    library = cc("libparse.so", LIBRARY, "-shared", "-fPIC", "-O1", "-s")
    return cc("sample", PROGRAM, "-O1", "-no-pie", str(library))


@pytest.fixture
def recorded(run, sample):
    assert run("-q", "-o", "x.mgp", sample).returncode == 7


def test_the_summary_of_a_run(run, sample, tmp_path):
    result = run(sample, text=True)
    assert (result.returncode, result.stdout) == (7, "")
    lines = result.stderr.splitlines()
    assert max(map(len, lines)) <= 80
    (profile,) = tmp_path.glob("*.mgp")
    text = result.stderr
    assert re.match(rf"mallograph: {sample}\n            pid \d+, exit 7, .*, 1 thread, complete\n\n", text)
    assert re.search(r"^  PEAK  +1\.9 MiB  at .* in 2,0\d\d blocks +RSS peak ", text, re.M)
    assert re.search(r"^  AT END  +1000 B  in 10 blocks$", text, re.M)
    assert re.search(r"^  ALLOCATED  3,010 times, 1\.9 MiB; 1,000 temporary \(33\.2 %\)$", text, re.M)
    assert "\n  99 % of the peak was allocated below library_parse (libparse.so).\n" in text
    table = text.split("PEAK BY SITE")[1].split("\n\n")[0].splitlines()
    assert re.fullmatch(r"  1\.9 MiB  (?: 99\.9|100\.0)      2,000   1000 B     0  libparse\.so\+0x\w+ < library_parse",
                        table[2])
    assert re.fullmatch(r"   1000 B    0\.\d         10    100 B     0  leave < main", table[3])
    assert "TEMPORARY BY SITE" in text and "churn < main" in text
    assert re.search(r"^SIZES    value  -------------", text, re.M)
    assert re.search(r"^SYMBOLS  libparse.so: only some function names, no line numbers$", text, re.M)
    assert f"SAVED    {profile.name} (" in text
    assert text.endswith("full stacks:  mallograph report      a tree:  mallograph report --tree\n"
                         "         what is left:  mallograph report --live\n")


def test_the_summary_again(run, sample, tmp_path):
    """report --summary: what the run said, but where it was saved."""
    said = run(sample, text=True).stderr
    before = "\nSAVED "
    assert run("report", "--summary", text=True).stdout == said[: said.index(before)]
    for other in (["--tree"], ["--json"], ["--sites", "3"]):
        result = run("report", "--summary", *other, text=True)
        assert (result.returncode, result.stdout) == (2, "")
        assert "summary" in result.stderr


@pytest.mark.parametrize("out", ["x.mgp", "it's $HOME.mgp", "d/x.mgp", "x", ".x.mgp", "x.mgl"])
def test_what_is_said_to_look_next_works(run, mallograph, runtime, sample, tmp_path, out):
    (tmp_path / "d").mkdir()
    text = run("-o", out, sample, text=True).stderr
    said = re.findall(r"(?:full stacks|a tree):  mallograph (report.*?)(?:      |\n)", text)
    assert len(said) == 2
    for line in said:
        done = subprocess.run(["sh", "-c", f"{mallograph} {line}"], cwd=tmp_path, capture_output=True,
                              text=True, env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)})
        assert done.returncode == 0 and "library_parse" in done.stdout, line


def test_full_stacks(run, recorded, sample):
    text = run("report", text=True).stdout
    site = text.split("\n\n")[2].splitlines()
    assert re.match(r"  1\. 1\.9 MiB at the peak \((?:99\.9|100\.0) %\) by malloc", site[0])
    frames = [line.strip() for line in site[3:]]
    assert re.fullmatch(r"libparse\.so\+0x\w+", frames[0])
    assert re.fullmatch(r"library_parse \(libparse\.so\+0x\w+\)", frames[2])
    assert re.fullmatch(r"main \(.*sample\.c:\d+:\d+\) in sample", frames[3])
    live = run("report", "--live", text=True).stdout
    assert re.search(r"       xmalloc \(.*sample\.c:6:\d+\) in sample \[inlined\]\n"
                     r"     > leave \(.*sample\.c:9:\d+\) in sample\n"
                     r"       main \(", live)
    # What has nothing live is in the rest, unless all are asked for.
    assert " 0 B live" not in live and re.search(r"^     \d+ other sites?: --sites all$", live, re.M)
    assert " 0 B live" in run("report", "--live", "--sites", "all", text=True).stdout


def test_json_has_inlined_calls_as_frames(run, recorded):
    report = json.loads(run("report", "--json", "--live").stdout)
    inner, outer, main = report["sites"][0]["stack"][:3]
    assert (inner["function"], inner["line"], inner["inlined"]) == ("xmalloc", 6, True)
    assert (outer["function"], outer["line"], outer["inlined"]) == ("leave", 9, False)
    assert inner["offset"] == outer["offset"] != main["offset"]
    assert main["function"] == "main" and main["file"].endswith("sample.c")


@pytest.mark.parametrize("words, wanted", [
    (["--alloc-fn", "leave"], r"> main \("), (["--alloc-fn=le*"], r"> main \("),
    (["--alloc-fn", "nothing"], r"> leave \("), ([], r"> leave \("),
])
def test_alloc_fn_titles_anew(run, recorded, words, wanted):
    assert re.search(wanted, run("report", "--live", "--sites", "1", *words, text=True).stdout)


def test_alloc_fn_of_a_run(run, sample):
    text = run("--alloc-fn", "leave", sample, text=True).stderr
    assert "leave < main" not in text and re.search(r"  main$", text, re.M)


@pytest.mark.parametrize("view, leader", [
    ("--peak", "below"), ("--live", "leave"), ("--allocations", "library_parse"),
    ("--bytes", "library_parse"), ("--temporary", "churn"),
])
def test_trees_lead_with_what_the_view_asks_for(run, recorded, view, leader):
    down = run("report", "--tree", view, text=True).stdout.splitlines()
    up = run("report", "--tree=bottom-up", view, text=True).stdout.splitlines()
    assert "from where the program begins" in down[0] and "from what allocates" in up[0]
    assert any("main" in line for line in down[1:8])
    assert "100.0 %" in down[1]
    name = up[1].split("%  ")[1]
    assert leader in name or (name.startswith("libparse.so+") and "library_parse" in "".join(up))


def test_hist(run, recorded):
    text = run("hist", text=True).stdout
    assert re.search(r"^ +512 \|@+ +2,000$", text, re.M)
    assert re.search(r"^ +32 \|@+ +1,000$", text, re.M)
    by_module = run("hist", "--by", "module", "--bytes", text=True).stdout
    assert by_module.startswith("libparse.so\n") and "\n\nsample\n" in by_module
    assert "1.9 MiB" in by_module
    assert run("hist", "--by", "function", text=True).stdout.startswith("malloc\n")
    assert run("hist", "--by", "thread", text=True).stdout.startswith("sample\n")
    by_site = run("hist", "--by", "stack", "--sites", "1", text=True).stdout
    assert re.match(r"libparse\.so\+0x\w+ < library_parse\n", by_site) and " others\n" in by_site
    linear = run("hist", "--lquantize", "0:1024:256", text=True).stdout
    assert re.search(r"^ +768 \|@+ +2,000$", linear, re.M) and ">= 1024 |" in linear
    assert "bounds moved" not in linear
    assert "bounds moved" in run("hist", "--lquantize", "0:1K:100", text=True).stdout


def test_info(run, recorded, sample):
    text = run("info", text=True).stdout
    assert "PROFILE    ./x.mgp\n" in text and "by mallograph 0" in text
    assert re.search(rf"^(?:MODULES)? +full +{sample}$", text, re.M)
    assert re.search(r"^(?:MODULES)? +symtab +/.*libparse\.so$", text, re.M)


def test_query(run, recorded):
    question = "select title_function, live_bytes from v_site where live_bytes > 0"
    assert run("query", question, text=True).stdout.splitlines() == [
        "title_function  live_bytes", "--------------  ----------", "leave                 1000"]
    assert run("query", "--csv", question).stdout == b"title_function,live_bytes\nleave,1000\n"
    assert json.loads(run("query", "--json", question, "x.mgp").stdout) == [
        {"title_function": "leave", "live_bytes": 1000}]
    assert json.loads(run("query", "--json", "select null n, 1.5 r, 'a\"b' t, 9e999 i").stdout) == [
        {"n": None, "r": 1.5, "t": 'a"b', "i": None}]
    assert run("query", "--csv", "select 'a,b' x, 'c\"d' y, char(10, 27) z").stdout == (
        b'x,y,z\n"a,b","c""d",\\n\\x1b\n')
    assert run("query", "--json", "select 1 where 0").stdout == b"[\n]\n"
    wrong = run("query", "select nosuch from site", text=True)
    assert (wrong.returncode, wrong.stderr) == (
        2, "mallograph: no such column: nosuch\n"
           "            What there is: mallograph query 'select sql from sqlite_schema'.\n")
    assert b"CREATE TABLE" in run("query", "select sql from sqlite_schema").stdout


def test_a_question_cannot_write(run, recorded, tmp_path):
    before = (tmp_path / "x.mgp").read_bytes()
    for question in ["delete from site", "attach 'y.mgp' as y", "vacuum into 'y.mgp'",
                     "pragma journal_mode=wal", "create table t(a)", "select writefile('y', 'z')",
                     "select load_extension('y')"]:
        result = run("query", question, text=True)
        assert (result.returncode, result.stdout) == (2, ""), question
        assert result.stderr.startswith("mallograph: ")
    assert (tmp_path / "x.mgp").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.mgp"]


def test_questions_about_a_long_result(run, recorded):
    numbers = "with recursive n(x) as (values(1) union all select x+1 from n where x<5000) select x from n"
    lines = run("query", numbers, text=True).stdout.split()
    assert lines[0] == "x" and lines[2:] == [str(i) for i in range(1, 5001)]


def test_blocks(run, recorded, sample):
    text = run("blocks", text=True).stdout
    assert text.startswith(f"> {sample}\n\nSUMMARY:\n  3010 allocs, 3000 frees (2033000 bytes alloc-ed)\n\n")
    blocks = text.split("\n\n")[2:]
    assert len(blocks) == 10
    for number, block in enumerate(blocks, 3001):
        first, *frames = block.splitlines()
        assert re.fullmatch(rf"  ~ alloc #{number} \(! \d+\.\d{{3}} ms\) -> \[100 bytes @ 0x\w+\]:", first)
        assert re.fullmatch(r"    @ 0x4\w+: xmalloc \(.*sample\.c:6:\d+\) \[inlined\]", frames[0])
        assert frames[1] == f"      (in {sample})"


@pytest.mark.parametrize("words", [["report"], ["blocks"], ["hist"], ["info"], ["query", "select 1"],
                                   ["report", "--tree"], ["report", "--json"]])
def test_a_process_a_ledger_and_a_profile_are_shown_alike(run, mallograph, runtime, tmp_path, sample, words):
    process = subprocess.Popen(
        [mallograph, "-q", "-o", "x.mgl", sample, "wait"], cwd=tmp_path,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)})
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until = time.monotonic() + 20
    while not (pid := children.read_text().strip()):
        assert time.monotonic() < until
    while run("query", "--csv", "select allocs >= 3010 from process", pid).stdout != b"allocs >= 3010\n1\n":
        assert time.monotonic() < until
    for how in [pid], ["-p", pid]:
        result = run(*words, *how, text=True)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout
    os.kill(int(pid), signal.SIGTERM)
    process.wait()
    result = run(*words, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert os.listdir(runtime / "mallograph") == []


def test_a_ledger_is_left_as_it_is(run, sample, tmp_path):
    run("-q", "-o", "x.mgl", sample)
    before = (tmp_path / "x.mgl").read_bytes()
    assert before[:8] == b"MGLEDGR1"
    assert "library_parse" in run("report", text=True).stdout
    assert (tmp_path / "x.mgl").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.mgl"]


def test_a_profile_cut_short_or_damaged_is_told(run, recorded, tmp_path):
    data = (tmp_path / "x.mgp").read_bytes()
    for name, content in [("cut", data[:len(data) // 2]), ("odd", data[:5000] + b"\xff" * 3000 + data[8000:])]:
        (tmp_path / name).write_bytes(content)
        for words in ["report"], ["blocks"], ["hist"], ["info"], ["report", "--json"]:
            result = run(*words, name, text=True)
            assert result.returncode in (0, 125) if name == "odd" else result.returncode == 125
            if result.returncode:
                assert "damaged" in result.stderr and result.stderr.count("\n") <= 4


# --- terminals ---------------------------------------------------------------------


@pytest.fixture
def terminal(mallograph, runtime, tmp_path):
    """terminal(*words, columns=, **environment): what a terminal is given."""

    def run(*words, columns=100, which=1, environment=()):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "PAGER", "LESS")}
        env |= {"XDG_RUNTIME_DIR": str(runtime), "TERM": "xterm", "PAGER": "cat", **dict(environment)}
        process = subprocess.Popen([mallograph, *words], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL,
                                   **{("stdout", "stderr")[which - 1]: slave})
        os.close(slave)
        text = b""
        while True:
            assert select.select([master], [], [], 30)[0], "it says nothing"
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            text += part
        os.close(master)
        process.wait()
        return text.decode().replace("\r\n", "\n")

    return run


def test_colours_on_a_terminal_alone(run, recorded, terminal):
    assert "\033[" in terminal("report")
    assert "\033[" not in terminal("report", "--color=never")
    assert "\033[" not in terminal("report", environment={"NO_COLOR": "1"})
    assert "\033[" not in terminal("report", environment={"TERM": "dumb"})
    assert "\033[" in terminal("report", "--color", "always", environment={"NO_COLOR": "1"})
    for command in ["report"], ["report", "--tree"], ["hist"], ["info"], ["report", "--json"], ["blocks"]:
        plain = run(*command).stdout
        assert b"\033" not in plain
        assert re.sub(rb"\033\[[\d;]*m", b"", run(*command, "--color=always").stdout) == plain


def test_the_summary_on_a_terminal(terminal, run, sample):
    assert "\033[" in terminal(sample, which=2)
    assert "\033[" not in terminal("--color=never", sample, which=2)
    assert b"\033[" in run("--color=always", sample).stderr
    assert run("--color=often", "true").returncode == 2


def test_it_is_as_wide_as_the_terminal(terminal):
    words = ["--color=never", "sh", "-c", ":", "x" * 300]
    narrow = terminal(*words, columns=40, which=2)
    assert max(map(len, narrow.splitlines())) == 80
    wide = terminal(*words, columns=120, which=2)
    assert max(map(len, wide.splitlines())) == 120


def test_a_pager_on_a_terminal(recorded, terminal, tmp_path):
    shown = terminal("report", environment={"PAGER": "sed 's/^/paged: /'"})
    assert all(line.startswith("paged: ") for line in shown.splitlines())
    # It may leave at once.
    assert terminal("blocks", environment={"PAGER": "head -1"}).startswith("> ")
    assert terminal("report", environment={"PAGER": ""}).startswith("mallograph: ")
    assert "LESS=FRX" in terminal("info", environment={"PAGER": "env; cat >/dev/null"})


def test_no_pager_elsewhere(run, recorded):
    env = {**os.environ, "PAGER": "sed 's/^/paged: /'"}
    assert b"paged" not in run("report", env=env).stdout
