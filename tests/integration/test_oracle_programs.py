"""Programs as they are installed: the same output, and the counts of another library's counting."""

import os
import pathlib
import subprocess

import pytest

from programs_help import assert_plausible, counted, counted_run, need, recorded, run

PROGRAMS = {
    "uname": ["uname", "-a"],
    "jq": ["jq", "-nc", "[range(3000)|{a:., b:(.|tostring)}]|group_by(.a%7)|map(length)"],
    "sqlite3": [
        "sqlite3",
        ":memory:",
        "create table t(a,b); with recursive n(i) as (select 1 union all select i+1 from n where "
        "i<5000) insert into t select i,i*7%13 from n; select b,count(*),sum(a) from t group by b;",
    ],
    "git": ["git", "--no-pager", "log", "--oneline", "-5"],
    "python3": ["python3", "-I", "-c", "import json;print(len(json.dumps(list(range(9999)))))"],
    "xz": ["xz", "-T2", "-k", "-c", "input"],
    "sort": ["sort", "-n", "input"],
}
# xz has threads of its own, which race for their buffers.
DETERMINISTIC = [name for name in PROGRAMS if name != "xz"]


@pytest.fixture
def place(tmp_path):
    """A working directory with what the programs read."""
    (tmp_path / "input").write_text("".join(f"{i * 7919 % 10007}\n" for i in range(200000)))
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    for i in range(6):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", f"change {i}"], check=True)
    return tmp_path


def arguments(name):
    command = PROGRAMS[name]
    need(command[0])
    return command


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_changes(record, place, name):
    """Output and exit status are the program's own, and the totals hang together."""
    command = arguments(name)
    before = run(command, place)
    answer, profile = recorded(record, command, place)
    assert answer.stdout == before.stdout
    assert answer.stderr == before.stderr
    assert answer.returncode == before.returncode == 0
    assert_plausible(profile.root, profile.sites_of(profile.root))


@pytest.mark.parametrize("name", PROGRAMS)
def test_counts_equal_in_one_run(record, place, name):
    answer, _, _ = counted_run(record, arguments(name), place)
    assert answer.returncode == 0


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_counts_equal_in_two_runs(record, place, name):
    command = arguments(name)
    env = {"LD_PRELOAD": str(record.library("count_preload")), "COUNT_OUT": str(place / "counts")}
    assert run(command, place, **env).returncode == 0
    expected, _ = counted(place / "counts")
    _, profile = recorded(record, command, place)
    # Environment and paths differ by a few bytes between the runs.
    assert abs(profile.root["allocations"] - expected["allocations"]) <= 2
    assert abs(profile.root["frees"] - expected["frees"]) <= 2
    assert abs(profile.root["allocated_bytes"] - expected["allocated_bytes"]) <= 4096


def test_status_of_a_failing_program(record, place):
    answer, profile = recorded(record, ["ls", "/nonexistent/place"], place)
    before = run(["ls", "/nonexistent/place"], place)
    assert (answer.returncode, answer.stderr) == (before.returncode, before.stderr)
    assert profile.root["end"] == {"kind": "exit", "code": before.returncode}


def test_a_compiler_and_what_it_starts(record, place):
    """A driver that starts others: the same object file, each process with counts that add up."""
    source = pathlib.Path(__file__).parents[1] / "programs" / "oracle_mix.c"
    compile_it = ["cc", "-D_GNU_SOURCE", "-O1", "-c", source, "-o"]
    assert run([*compile_it, place / "native.o"], place).returncode == 0
    answer, profile = recorded(record, [*compile_it, place / "recorded.o"], place)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"", b"")
    assert (place / "native.o").read_bytes() == (place / "recorded.o").read_bytes()
    names = {os.path.basename(p["exe"]) for p in profile.processes}
    assert any("cc1" in name for name in names)
    assert any(name.endswith("as") for name in names)
    for process in profile.processes:
        sites = profile.sites_of(process)
        assert process["allocations"] > 100
        assert process["unknown_frees"] == 0
        assert process["losses"] == []
        for key in ("allocations", "frees", "allocated_bytes", "live_bytes", "temporary"):
            assert sum(site[key] for site in sites) == process[key]
