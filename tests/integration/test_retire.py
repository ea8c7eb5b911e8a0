"""Trees of many processes: those that are over leave the session file, and nothing is lost."""

import os
import signal
import sqlite3
import struct
import subprocess

import pytest

from oracle import PEAK, SITE_TOTALS, peak, read_said, report, session_of, wait_for

SIZE = 40000
KEYS = [key for key in SITE_TOTALS if key != "temporary"]


def assert_exact(report, said, missing=0):
    """Every process that said something is in the report, with what it said."""
    by_pid = {}
    for process in report.processes:
        by_pid.setdefault(process["pid"], []).append(process)
    for one in said:
        (process,) = by_pid[one.pid]
        assert {key: process[key] for key in KEYS} == one.only(KEYS), one.words
        assert peak(process) == one.only(PEAK), one.words
        assert process["losses"] == []
    assert len(said) + missing == len(report.processes)


def blocks_of(session):
    return session.stat().st_blocks * 512


def retired_in(session):
    """Processes that are kept beside a session file: mgl_control.retired."""
    with session.open("rb") as file:
        file.seek(4096 + 32)
        return struct.unpack("I", file.read(4))[0]


@pytest.fixture
def waiting(record, tmp_path):
    """waiting(count): (tool, session, profile, said) once so many children are over and put away."""
    started = []

    def start(count, how="waiting", enough=None):
        profile = tmp_path / f"{len(started)}.mgp"
        tool, _, said = record.start("brood", how, count, SIZE, stdin=subprocess.PIPE,
                                     options=["-o", profile])
        started.append(tool)
        record.ready(said)
        session = session_of(tool.pid)
        wait_for(lambda: retired_in(session) >= (enough or count), 60)
        return tool, session, profile, said

    yield start
    for tool in started:
        tool.stdin.close()
        tool.wait(60)


def test_those_that_are_over_leave_the_session(record, waiting):
    """Looked at while the tree runs, and at its end."""
    tool, session, profile, said = waiting(200)
    wait_for(lambda: blocks_of(session) < 8 << 20)
    children = [one for one in read_said(said) if one.words.get("role") == "child"]
    assert len(children) == 200
    assert_exact(report(record.tool, session, sites=0), children, missing=1)
    tool.stdin.close()
    assert tool.wait(60) == 0
    assert not session.exists() and not list(session.parent.glob(session.stem + "*"))
    everybody = [one for one in read_said(said) if one.words.get("role")]
    assert_exact(report(record.tool, profile, sites=0), everybody)


def test_sites_of_those_that_left_have_their_titles(record, waiting):
    tool, _, path, _ = waiting(100)
    tool.stdin.close()
    assert tool.wait(60) == 0
    with sqlite3.connect(path) as profile:
        titles = profile.execute(
            "SELECT title_function, count(*), sum(allocs) FROM v_site GROUP BY 1").fetchall()
        assert profile.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert profile.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert titles == [("make", 101, 1001)]


@pytest.mark.parametrize("how", ["waiting", "running"])
def test_the_tool_is_killed_amid_a_tree(record, waiting, tmp_path, how):
    """No process notices, and all that was recorded is recovered: what was put away, what was not
    yet, and what came later."""
    tool, session, _, said = waiting(150, how, enough=64)
    tool.send_signal(signal.SIGKILL)
    tool.wait()
    roles = lambda: [one.words.get("role") for one in read_said(said)]
    if how == "running":
        before = len(roles())
        wait_for(lambda: len(roles()) > before + 30)
    tool.stdin.close()
    wait_for(lambda: "parent" in roles())
    parent = next(one for one in read_said(said) if one.words.get("role") == "parent")
    wait_for(lambda: not os.path.exists(f"/proc/{parent.pid}/exe"))
    recovered = tmp_path / "recovered.mgp"
    answer = subprocess.run([record.tool, "recover", "-o", recovered, session], text=True,
                            capture_output=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stderr
    assert not list(session.parent.glob(session.stem + "*"))
    everybody = [one for one in read_said(said) if one.words.get("role")]
    assert_exact(report(record.tool, recovered, sites=0), everybody)


@pytest.mark.slow
def test_ten_thousand_processes(record, tmp_path):
    profile = tmp_path / "many.mgp"
    run = record.run("brood", "in_turn", 10000, SIZE, timeout=600, options=["-o", profile])
    everybody = [one for one in run.all_said if one.words.get("role")]
    assert len(everybody) == 10001
    assert_exact(report(record.tool, profile, sites=0), everybody)
    assert profile.stat().st_size < 100 << 20
