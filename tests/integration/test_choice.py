"""--no-follow, --only and --not: who is recorded of a tree, and that it is said who is not."""

import os
import subprocess

import pytest

import oracle


@pytest.fixture
def tree(record, tmp_path):
    """tree(*options): the base names recorded of a shell that starts a script, which starts show
    and another shell that forks and runs uname; the report."""
    show = record.program("show")
    script = tmp_path / "a_script"
    script.write_text(f"#!/bin/sh\n{show} x >/dev/null\nsh -c 'uname >/dev/null; (uname -o >/dev/null; :)'\n:\n")
    script.chmod(0o755)

    def run(*options):
        ledger = record.new_paths()[0]
        done = subprocess.run(
            [record.tool, "-o", ledger, *options, "--", "sh", "-c", f"{script}; exit 3"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 3, done.stderr
        found = oracle.report(record.tool, ledger) if ledger.exists() else None
        return [os.path.basename(p["exe"]) for p in found.processes] if found else [], found, done

    return run


def left_out(report):
    return [n["count"] for p in report.processes for n in p["losses"] if n["kind"] == "left_out"]


def shell():
    return os.path.basename(os.path.realpath("/bin/sh"))


def test_all_by_default(tree):
    names, report, _ = tree()
    assert sorted(set(names)) == sorted({shell(), "show", "uname"})
    assert left_out(report) == []


def test_only_some(tree):
    """Their parents are not recorded, and how each ended is not known then."""
    names, report, done = tree("--only", "una*", "--only", "sho?")
    assert sorted(names) == ["show", "uname", "uname"]
    assert {p["parent"] for p in report.processes} == {None}
    assert "root" not in {p["how"] for p in report.processes}
    (count,) = left_out(report)
    assert count == 3  # shells
    assert "3 processes were left out, as was asked" in done.stderr


def test_not_some(tree):
    names, report, _ = tree("--not", "uname", "--not", "nothing")
    assert set(names) == {shell(), "show"}
    assert left_out(report) == [2]
    assert {p["end"]["kind"] for p in report.processes} == {"exit"}


def test_a_name_it_was_executed_by(tree):
    """A link's name is the program's, as is a script's."""
    names, _, _ = tree("--only", "a_script")
    assert names == [shell()]
    names, _, _ = tree("--not", "a_script", "--not", "show")
    assert "show" not in names and "uname" in names


def test_a_whole_path(tree, record):
    names, _, _ = tree("--only", str(record.program("show")))
    assert names == ["show"]
    names, _, _ = tree("--only", "/nowhere/*")
    assert names == []


def test_nobody_is_chosen(tree):
    names, _, done = tree("--only", "nobody")
    assert names == []
    assert "--only and --not leave out" in done.stderr


def test_no_follow(tree):
    names, report, _ = tree("--no-follow")
    assert names == [shell()]
    assert report.root["how"] == "root"
    assert report.root["end"] == {"kind": "exit", "code": 3}
    assert left_out(report) == [1]


def test_no_follow_follows_an_exec(record, tmp_path):
    """A wrapper becomes what it wraps: that is no child."""
    run = record.run("forks", "fork", 5, options=["--no-follow"], before=["env", "A=b"])
    assert [os.path.basename(p["exe"]) for p in run.report.processes] == ["env", "forks"]
    assert left_out(run.report) == [5]
    (said,) = [s for s in run.all_said if s.words["role"] == "parent"]
    process = run.report.processes[1]
    assert oracle.totals(process) == said.only(oracle.TOTALS)
    assert oracle.peak(process) == said.only(oracle.PEAK)


@pytest.mark.parametrize("how, count", [("fork", 5), ("raw", 5), ("vfork_exec", 5), ("spawn", 5)])
def test_no_follow_leaves_out_every_kind_of_child(record, how, count):
    run = record.run("forks", how, count, options=["--no-follow"])
    assert len(run.report.processes) == 1
    assert left_out(run.report) == [count]
    (said,) = [s for s in run.all_said if s.words["role"] == "parent"]
    assert oracle.totals(run.root) == said.only(oracle.TOTALS)


def test_forked_children_go_by_their_parents_choice(record):
    run = record.run("forks", "fork", 5, options=["--only", "forks"])
    assert len(run.report.processes) == 6
    ledger, said = record.new_paths()
    subprocess.run(record.command(ledger, said, "forks", "fork", 5, options=["--not", "forks"]),
                   check=True, capture_output=True)  # fmt: skip
    assert not ledger.exists()


def test_a_missed_program_that_was_not_chosen_is_no_loss(record, program):
    static = program("small_static")
    if not static.exists():
        pytest.skip("no static programs here")
    for options, kinds in ((["--not", "small_*"], []), ([], ["missed_process"])):
        ledger = record.new_paths()[0]
        subprocess.run([record.tool, "-q", "-o", ledger, *options, "--", program("execs"),
                        "posix_spawn", static], check=False, capture_output=True)  # fmt: skip
        found = oracle.report(record.tool, ledger)
        assert [n["kind"] for p in found.processes for n in p["losses"]] == kinds


def test_without_a_collector(record, agent, tmp_path):
    """The variables that env prints carry the choice; the session keeps it for all of the tree."""
    out = tmp_path / "by_hand.mgl"
    lines = subprocess.run(
        [record.tool, "env", "-o", out, "--only", "uname", "--not", "it's"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    done = subprocess.run(
        ["sh", "-c", lines + "exec sh -c 'uname; env; uname -o; :'"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "MALLOGRAPH" not in done.stdout
    found = oracle.report(record.tool, out)
    assert [os.path.basename(p["exe"]) for p in found.processes] == ["uname", "uname"]


@pytest.mark.parametrize(
    "options, said",
    [
        (["--only"], "needs PATTERN"),
        (["--only", ""], "PATTERN of one line"),
        (["--not", "a\nb"], "PATTERN of one line"),
        (["--only", "x" * 4000], "longer than"),
        (["--no-follow=1"], "takes no value"),
    ],
)
def test_what_makes_no_sense_is_refused(run, options, said):
    done = run(*options, *([] if options == ["--only"] else ["--", "true"]), text=True)
    assert done.returncode == 2
    assert said in done.stderr
