"""The command line itself, and the commands that look after recordings."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from oracle import wait_for

BUILT = ["run", "report", "blocks", "hist", "info", "symbolize", "doctor", "query", "env", "recover",
         "merge"]
RESERVED = ("attach detach save top leaks diff check export flame html"
            ).split()


def width(text):
    return max(map(len, text.splitlines()))


@pytest.mark.parametrize("words", [["--help"], ["-h"], *([name, "--help"] for name in BUILT)])
def test_help_fits_a_terminal(run, words):
    result = run(*words, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: mallograph")
    assert width(result.stdout) <= 80


def test_help_lists_what_works_and_nothing_else(run):
    listed = re.findall(r"^  (\w+)  ", run("--help", text=True).stdout.split("Commands")[1], re.M)
    assert sorted(listed) == sorted(BUILT)


def test_nothing_typed_shows_usage(run):
    result = run(text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == run("--help", text=True).stdout


def test_version(run, root):
    version = re.search(r"version: '(.*)'", (root / "meson.build").read_text())[1]
    assert run("--version", text=True).stdout == f"mallograph {version}\n"


@pytest.mark.parametrize("word", RESERVED)
def test_words_of_commands_to_come_are_reserved(run, tmp_path, word):
    result = run(word, text=True)
    assert result.returncode == 2
    assert f"mallograph -- {word}" in result.stderr
    program = tmp_path / word
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert run("--", word, env=env).returncode == 9
    assert run("run", "-q", word, env=env).returncode == 9
    assert run("-q", word, env=env).returncode == 2


@pytest.mark.parametrize("word, meant", [
    ("repotr", "report"), ("merg", "merge"), ("hsit", "hist"), ("symbolise", "symbolize"),
    ("infos", "info"), ("no-such-thing", None), ("hi", None), ("x" * 300, None), ("dif", None),
])
def test_a_command_is_guessed_from_what_is_no_program(run, word, meant):
    result = run(word, text=True)
    assert result.returncode == 127 and "no such program" in result.stderr
    assert ("did you mean" in result.stderr) == (meant is not None)
    assert meant is None or f"did you mean mallograph {meant}?\n" in result.stderr


@pytest.mark.parametrize("words, text", [
    (["--nonsense", "true"], "--nonsense"), (["-qx", "true"], "-x"), (["-o"], "-o needs FILE"),
    (["--quiet=1", "true"], "--quiet takes no value"), (["-q"], "which program"),
    (["--max-ledger", "many", "true"], "--max-ledger"), (["--max-ledger=63K", "true"], "--max-ledger 63K"),
    (["--max-depth", "15", "true"], "--max-depth"), (["--max-depth=many", "true"], "--max-depth"),
    (["--max-depth=40000", "true"], "16 to 32768"),
    (["report", "--sites", "few"], "few"), (["report", "a", "b"], "b"),
    (["report", "-p", "1", "a"], "not both"), (["report", "-p", "x"], "x"),
    (["env", "word"], "word"), (["env", "--output="], "--output"), (["recover", "-o", "%q"], "%q"),
])
def test_what_makes_no_sense_is_named(run, tmp_path, words, text):
    result = run(*words, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert text in result.stderr.splitlines()[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [
    ["-qo", "x.mgl"], ["-qox.mgl"], ["-q", "--output", "x.mgl"], ["--output=x.mgl", "--quiet"],
    ["run", "-q", "-o", "x.mgl", "--"],
])
def test_ways_to_write_an_option(run, tmp_path, words):
    result = run(*words, "echo", "-q", "--help", text=True)
    assert (result.stdout, result.stderr) == ("-q --help\n", "")
    assert (tmp_path / "x.mgl").exists()


def test_a_full_standard_output_is_told(run, mallograph):
    with open("/dev/full", "w") as full:
        result = subprocess.run([mallograph, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 125
    assert "No space left" in result.stderr


def test_a_limit_stops_the_recording_not_the_program(run, cc):
    hoard = cc("hoard", """
#include <stdlib.h>
int main(void)
{
	for (int i = 0; i < 200000; i++)
		*(char *)malloc(16) = 1;
	return 6;
}""")
    assert run("-o", "x.mgl", "--max-ledger", "1M", hoard).returncode == 6
    (process,) = json.loads(run("report", "--json", "x.mgl").stdout)["processes"]
    assert 512 << 10 < process["ledger_bytes"] <= 1 << 20
    assert 10_000 < process["allocations"] < 200_000
    assert "stopped_ledger_limit" in [loss["kind"] for loss in process["losses"]]
    text = run("report", "x.mgl", text=True).stdout
    assert "AT STOP" in text and "AT END" not in text


# --- report ------------------------------------------------------------------------


def test_report_takes_the_newest_here(run, tmp_path):
    run("-q", "-o", "old.mgl", "sh", "-c", ":")
    run("-q", "-o", "new.mgp", "true")
    os.utime(tmp_path / "old.mgl", (1, 1))
    (tmp_path / "newest.mgp").write_text("none of ours")
    report = json.loads(run("report", "--json").stdout)
    assert (report["format"], report["version"]) == ("mallograph-report", 1)
    assert report["processes"][0]["command"] == ["true"]
    assert b"sh -c :" in run("report", "old.mgl").stdout


def test_report_without_a_ledger(run):
    result = run("report", text=True)
    assert (result.returncode, result.stdout) == (125, "")
    assert "no profile in this directory" in result.stderr and "PROGRAM" in result.stderr


@pytest.mark.parametrize("content, text", ids=["empty", "hello"], argvalues=[
    (b"", "not a mallograph profile"), (b"hello" * 5000, "not a mallograph profile"),
])
def test_report_of_something_else(run, tmp_path, content, text):
    (tmp_path / "x").write_bytes(content)
    result = run("report", "x", text=True)
    assert (result.returncode, result.stdout) == (125, "")
    assert text in result.stderr
    assert run("report", "none", text=True).returncode == 125


def test_report_of_a_truncated_ledger(run, tmp_path):
    run("-q", "-o", "x.mgl", "true")
    size = (tmp_path / "x.mgl").stat().st_size
    for cut in 100, 5000, size // 2, size - 1:
        data = (tmp_path / "x.mgl").read_bytes()[:cut]
        (tmp_path / "cut").write_bytes(data)
        result = run("report", "cut", text=True)
        assert result.returncode == 125, cut
        assert "cut short" in result.stderr and "Copy it again" in result.stderr


def test_report_of_another_version_names_its_writer(run, tmp_path):
    run("-q", "-o", "x.mgl", "true")
    data = bytearray((tmp_path / "x.mgl").read_bytes())
    data[8] = 99
    data[16:48] = b"mallograph 9.9.9".ljust(32, b"\0")
    (tmp_path / "x.mgl").write_bytes(data)
    result = run("report", "x.mgl", text=True)
    assert result.returncode == 125
    assert "mallograph 9.9.9" in result.stderr


def test_report_of_a_process_by_its_pid(run, mallograph, runtime, tmp_path):
    process = subprocess.Popen(
        [mallograph, "-q", "-o", "x.mgl", "sh", "-c", "echo $$; read x; exit 4"], cwd=tmp_path, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)})
    pid = process.stdout.readline().strip()
    for words in [pid], ["-p", pid]:
        report = json.loads(run("report", "--json", *words).stdout)
        assert report["processes"][0]["pid"] == int(pid)
        assert report["processes"][0]["end"]["kind"] == "running"
    process.communicate("\n")
    assert process.returncode == 4
    result = run("report", pid, text=True)
    assert result.returncode == 125
    assert f"./{pid}" in result.stderr
    (tmp_path / "x.mgl").rename(tmp_path / pid)
    assert run("report", f"./{pid}").returncode == 0


# --- env ---------------------------------------------------------------------------


def test_env_records_without_a_collector(run, runtime, tmp_path):
    exports = run("env", text=True).stdout
    shell = subprocess.run(["sh", "-c", exports + "sh -c 'exit 3'; echo $?"], cwd=tmp_path,
                           capture_output=True, text=True)
    assert (shell.stdout, shell.stderr) == ("3\n", "")
    (ledger,) = (runtime / "mallograph").iterdir()
    pid = ledger.stem
    assert json.loads(run("report", "--json", pid).stdout)["processes"][0]["pid"] == int(pid)
    assert "recovered mallograph." in run("recover", pid, text=True).stderr
    assert list((runtime / "mallograph").iterdir()) == []


def test_env_quotes_for_the_shell(run, tmp_path):
    odd = tmp_path / "it's $HOME `x` \\ \"q\""
    odd.mkdir()
    exports = run("env", "--output", "%p.mgl", cwd=odd, text=True).stdout
    assert subprocess.run(["sh", "-c", exports + "/bin/true"], cwd="/").returncode == 0
    assert len(list(odd.glob("*.mgl"))) == 1


def test_env_keeps_what_is_preloaded(run, cc):
    nothing = cc("libnothing.so", "int nothing;", "-shared", "-fPIC")
    exports = run("env", text=True).stdout
    result = subprocess.run(["sh", "-c", f"LD_PRELOAD={nothing}\n{exports}echo $LD_PRELOAD"],
                            capture_output=True, text=True)
    assert result.stdout.endswith(f"libmallograph-agent.so:{nothing}\n")


# --- recover -----------------------------------------------------------------------


@pytest.fixture
def abandoned(mallograph, runtime, tmp_path):
    """abandoned(): a program whose collector was killed; closing its input ends it."""
    started = []

    def start():
        process = subprocess.Popen(
            [mallograph, "sh", "-c", "echo $$; trap 'echo term' TERM; read x; echo ended $x >result"],
            cwd=tmp_path, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)})
        started.append(process)
        pid = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        return process, pid

    yield start
    for process in started:
        process.stdin.close()
        process.stdout.close()


def wait_for(condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_death_of_the_collector_is_not_noticed_and_nothing_is_lost(run, abandoned, runtime, tmp_path):
    process, pid = abandoned()
    result = run("recover", str(pid), text=True)
    assert result.returncode == 0 and "its processes still run" in " ".join(result.stderr.split())
    os.kill(pid, 0)
    process.stdin.write("well\n")
    process.stdin.flush()
    wait_for(lambda: (tmp_path / "result").exists() and (tmp_path / "result").read_text())
    assert (tmp_path / "result").read_text() == "ended well\n"
    wait_for(lambda: not os.path.exists(f"/proc/{pid}/exe"))
    (session,) = (runtime / "mallograph").iterdir()
    result = run("recover", "-o", "saved-%p.mgl", session, text=True)
    assert f"recovered saved-{pid}.mgl" in result.stderr
    report = json.loads(run("report", "--json", f"saved-{pid}.mgl").stdout)
    assert report["processes"][0]["end"]["kind"] == "lost"
    assert report["processes"][0]["allocations"] > 0
    assert list((runtime / "mallograph").iterdir()) == []
    result = run("recover", str(pid), text=True)
    assert result.returncode == 125 and "not being recorded" in result.stderr


@pytest.mark.parametrize("name", ["deep/%n 100%%.mgp", "deep/it.mgl", "gone/x.mgp", None])
def test_recover_saves_where_the_run_was_to(run, mallograph, runtime, tmp_path, name):
    """-o of the run; where there is no such directory any more, or none was said: here."""
    for folder in "deep", "gone", "else":
        (tmp_path / folder).mkdir()
    process = subprocess.Popen(
        [mallograph, "-q", *(["-o", name] if name else []), "sh", "-c", "echo; read x; :"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)})  # fmt: skip
    process.stdout.readline()
    (session,) = (runtime / "mallograph").glob("*.mgl")
    try:
        os.getxattr(session, "user.mallograph.output")
    except OSError:
        if name:
            process.kill()
            pytest.skip("no extended attributes there")
    process.kill()
    process.wait()
    process.stdin.close()
    (tmp_path / "gone").rmdir()
    wait_for(lambda: "still run" not in run("recover", session, cwd=tmp_path / "else", text=True).stderr)
    found = [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()]
    if name and "deep" in name:
        assert found == [name.replace("%n", "sh").replace("%%", "%")]
    else:
        assert len(found) == 1 and re.fullmatch(r"else/mallograph\.[a-z]+\.\d+\.mgp", found[0])


def test_recover_leaves_what_is_being_recorded(run, mallograph, runtime, tmp_path):
    process = subprocess.Popen(
        [mallograph, "-q", "-o", "x.mgl", "sh", "-c", "echo $$; read x"], cwd=tmp_path, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)})
    result = run("recover", process.stdout.readline().strip(), text=True)
    assert result.returncode == 0
    assert "it is being recorded" in " ".join(result.stderr.split())
    process.communicate("\n")
    assert (tmp_path / "x.mgl").exists()


def test_recover_removes_what_dead_tools_were_making(mallograph, tmp_path, in_namespace):
    """Files that were to become profiles, and SQLite's of profiles that are gone."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    gone = [f"mallograph-{dead.pid}-aZ09bc", f"mallograph-{dead.pid}-aZ09bc-journal", "1-2.mgp-shm",
            "1-2.mgp-wal"]
    kept = [f"mallograph-{os.getpid()}-aZ09bc", f"mallograph-{dead.pid}-aZ", "3-4.mgp",
            "3-4.mgp-shm", "notes-shm"]
    result = in_namespace(
        'mount -t tmpfs none /dev/shm && export XDG_RUNTIME_DIR=/dev/shm && tool=$1 && shift && '
        'mkdir -m 700 /dev/shm/mallograph && cd /dev/shm/mallograph && touch "$@" && '
        '"$tool" recover && ls -1', mallograph, *gone, *kept, env=os.environ, cwd=tmp_path)
    assert result.stderr == "mallograph: nothing to recover\n"
    assert sorted(result.stdout.split()) == sorted(kept)


def test_recover_removes_what_holds_nothing(run, runtime, tmp_path):
    run("-q", "-o", "x.mgl", "true")
    place = runtime / "mallograph"
    ledger = bytearray(next(tmp_path.glob("*.mgl")).read_bytes())
    ledger[2 << 20:] = bytes(len(ledger) - (2 << 20))
    (place / "2147483647-1.mgl").write_bytes(ledger)
    (place / "3-1.mgl").write_bytes(b"not one")
    result = run("recover", place / "2147483647-1.mgl", place / "3-1.mgl", place / "none.mgl", text=True)
    told = " ".join(result.stderr.split())
    assert result.returncode == 125
    assert "nothing was recorded" in told
    assert "not a mallograph ledger" in told
    assert "No such file" in told
    assert [p.name for p in place.iterdir()] == ["3-1.mgl"]


def test_recover_takes_all(mallograph, tmp_path, in_namespace, sanitized):
    """In a /dev/shm of its own: this finds whatever the user has."""
    if sanitized:
        pytest.skip("the agent is preloaded into the tool itself")
    result = in_namespace(
        'mount -t tmpfs none /dev/shm || exit; "$1" recover; '
        'export XDG_RUNTIME_DIR=/dev/shm/run; mkdir -m 700 $XDG_RUNTIME_DIR; '
        'for dir in $XDG_RUNTIME_DIR /nowhere; do eval "$(XDG_RUNTIME_DIR=$dir "$1" env)"; /bin/true; done; '
        'unset LD_PRELOAD; ls -1 /dev/shm/run/mallograph /dev/shm/mallograph-0; "$1" recover; "$1" recover',
        mallograph, env=os.environ, cwd=tmp_path)
    assert result.returncode == 0
    assert result.stdout.count(".mgl\n") >= 2
    lines = result.stderr.splitlines()
    assert lines[0] == lines[-1] == "mallograph: nothing to recover"
    assert sum(line.startswith("mallograph: recovered mallograph.true.") for line in lines) == 2
    assert len(list(tmp_path.glob("mallograph.true.*.mgp"))) == 2


@pytest.mark.parametrize("name", ["", *BUILT[1:]])
def test_the_manual_names_the_options_of_help(run, root, name):
    page = (root / "docs" / "man" / f"mallograph{name and '-'}{name}.1").read_text()
    help_text = run(*filter(None, [name]), "--help", text=True).stdout
    listed = re.findall(r"^  (?:-(\w), |    )--([\w-]+)", help_text, re.M)
    assert listed
    assert not name or f".Sh SYNOPSIS\n.Nm mallograph Cm {name}\n" in page
    named = re.findall(r"^\.It(?: Fl (\w) ,)? Fl \\-([\w-]+)", page, re.M)
    assert sorted(named) == sorted(listed)
