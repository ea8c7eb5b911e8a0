"""The peak of a tree: what lived in all its processes at one instant, with a bound."""

import resource
import sqlite3
import subprocess

import pytest

from oracle import report

COUNT, SIZE = 8, 1000000


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tree.mgp"


def tree_of(path):
    """(most that was seen, at most this, sum of shares) of a profile."""
    with sqlite3.connect(path) as profile:
        (most,) = profile.execute(
            "SELECT max(live_bytes) FROM snap WHERE process=0").fetchone()
        (error,) = profile.execute(
            "SELECT value FROM meta WHERE key='tree_peak_error'").fetchone()
        (shares,) = profile.execute("SELECT sum(tree_peak_bytes) FROM process").fetchone()
        at = profile.execute(
            "SELECT live_bytes FROM snap WHERE process=0 AND why=2").fetchall()
    assert at == ([(most,)] if most else [])
    return most, most + error, shares


def test_together(record, path):
    """All hold at once, longer than snapshots are apart: it was seen, and there was no more."""
    record.run("brood", "together", COUNT, SIZE, 1000, options=["-o", path])
    most, bound, shares = tree_of(path)
    assert most == COUNT * SIZE
    assert bound == COUNT * SIZE
    assert shares == most


def test_more_than_there_are_descriptors_for(record, path):
    """Snapshots of many take their time, and leave the processor alone for fifty times that."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
    record.run("brood", "together", 150, 1000, 3000, options=["-o", path], preexec_fn=limit)
    most, bound, shares = tree_of(path)
    assert (most, shares) == (150000, 150000)
    assert bound >= most


def test_in_turn(record, path):
    """One after the other: whatever was seen, the truth is between the bounds."""
    record.run("brood", "in_turn", 40, SIZE, options=["-o", path])
    most, bound, shares = tree_of(path)
    assert most <= SIZE <= bound
    assert shares in (most, None)


@pytest.mark.parametrize("before", [
    ["unshare", "-p", "-f"], ["unshare", "-p", "-f", "--mount-proc"],
    ["unshare", "-p", "-f", "sh", "-c", "unshare -p -f \"$@\"; exit $?", "sh"]],
    ids=["plain", "proc", "nested"])  # fmt: skip
def test_in_a_pid_namespace(record, path, before):
    """Where pids are others' here: of processes that are as old as the system, most of them."""
    if subprocess.run(["unshare", "-p", "-f", "true"], capture_output=True).returncode:
        pytest.skip("no pid namespaces")
    record.run("brood", "together", COUNT, SIZE, 1000, options=["-o", path], before=before)
    most, bound, shares = tree_of(path)
    assert COUNT * SIZE <= most <= bound < COUNT * SIZE + (100 << 10)
    assert shares == most
    processes = report(record.tool, path, sites=0).processes
    children = [one for one in processes if one["peak_bytes"] == SIZE]
    assert len(children) == COUNT
    assert all(one["rss_peak_bytes"] for one in children)


def test_in_many_pid_namespaces(record, path):
    """All of the same pids."""
    if subprocess.run(["unshare", "-p", "-f", "true"], capture_output=True).returncode:
        pytest.skip("no pid namespaces")
    said = record.new_paths()[1]
    one = f"unshare -p -f {record.program('brood')} {said} together 3 {SIZE} 1000 &"
    command = ["sh", "-c", f"{one} {one} {one} wait"]
    subprocess.run([record.tool, "-q", "-o", path, "--", *command], check=True, timeout=60)
    most, bound, shares = tree_of(path)
    assert 9 * SIZE <= most <= bound < 9 * SIZE + (200 << 10)
    assert shares == most


def test_alone(record, path):
    """A process alone is its own tree."""
    record.run("small", options=["-o", path])
    with sqlite3.connect(path) as profile:
        assert profile.execute("SELECT count(*) FROM snap WHERE process=0").fetchone() == (0,)
