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


# --- who is over, and what lies beside a session ----------------------------------------

SPACES = """
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void make(int n, int us)
{
	for (int i = 0; i < n; i++) { void *volatile p = malloc(24); free(p); usleep(us); }
	while (wait(NULL) > 0) ; /* the first of a namespace takes the others with it */
	_exit(0);
}
int main(void)
{
	for (int s = 0; s < 2; s++)
		if (fork() == 0) {
			if (unshare(CLONE_NEWPID)) _exit(77);
			if (fork() == 0) { if (fork() == 0) make(150, 10000); make(150, 10000); }
			int status; wait(&status); _exit(0);
		}
	for (int i = 0; i < 200; i++) {
		if (fork() == 0) make(1, 0);
		int status; waitpid(-1, &status, 0);
	}
	int status, worst = 0;
	while (wait(&status) > 0) worst |= status;
	return worst != 0;
}
"""


def test_pids_of_other_namespaces_are_others(record, cc, tmp_path):
    """Those that run there have the pids of those that are over elsewhere."""
    if subprocess.run(["unshare", "-p", "true"], capture_output=True).returncode:
        pytest.skip("no pid namespaces")
    program = cc("spaces", SPACES)
    profile = tmp_path / "spaces.mgp"
    answer = subprocess.run([record.tool, "-q", "-o", profile, program], timeout=120, check=False)
    assert answer.returncode == 0
    found = [process["allocations"] for process in report(record.tool, profile, sites=0).processes]
    assert sorted(found)[-4:] == [150] * 4
    assert found.count(1) == 200


def abandon(tool, said):
    """The tool is killed, and the tree comes to its end."""
    tool.send_signal(signal.SIGKILL)
    tool.wait()
    tool.stdin.close()
    wait_for(lambda: "parent" in said.read_text())


def recovered(record, session, path):
    answer = subprocess.run([record.tool, "recover", "-o", path, session], text=True,
                            capture_output=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stderr
    return report(record.tool, path, sites=0)


def test_what_is_kept_is_damaged(record, waiting, tmp_path):
    """The rest is saved and says what it lacks; what cannot be read is left."""
    tool, session, _, said = waiting(130)
    wait_for(lambda: blocks_of(session) < 1 << 20)
    abandon(tool, said)
    kept = session.with_suffix(".mgp")
    kept.with_suffix(".mgp-wal").unlink(missing_ok=True)
    kept.write_bytes(kept.read_bytes()[:9000])
    rest = recovered(record, session, tmp_path / "rest.mgp")
    missed = [loss for process in rest.processes for loss in process["losses"]]
    assert [loss["kind"] for loss in missed] == ["missed_process"]
    assert missed[0]["count"] >= 60
    assert len(rest.processes) + missed[0]["count"] == 131
    assert kept.exists() and not session.exists()
    kept.unlink()


@pytest.fixture
def abandoned(waiting, tmp_path):
    """A session and what is kept beside it, in a place of ours alone; and a way to have them anew."""
    tool, session, _, said = waiting(130)
    wait_for(lambda: blocks_of(session) < 1 << 20)
    abandon(tool, said)
    kept = session.with_suffix(".mgp")
    with sqlite3.connect(kept) as profile:
        assert profile.execute("PRAGMA journal_mode=delete").fetchone() == ("delete",)
    place = tmp_path / "place"
    place.mkdir(mode=0o700)

    def again():
        subprocess.run(["cp", "-p", "--sparse=always", session, kept, place], check=True)
        return place / session.name, place / kept.name

    yield again
    session.unlink()
    kept.unlink()


FALSE = {
    "a process of another id": "UPDATE process SET id = id + 70000 WHERE id = 5",
    "a process that is none": "DELETE FROM process WHERE id = 5",
    "a process with another's pid": "UPDATE process SET id = 1 WHERE id = 5",
    "a module that is none": "DELETE FROM module WHERE id = 1",
    "a place under two numbers":
        "DROP INDEX loc_key; UPDATE loc SET (module, offset, flags) ="
        " (SELECT module, offset, flags FROM loc WHERE id = 1) WHERE id = 2",
    "a site of no stack": "UPDATE site SET stack = 70000 WHERE id = 7",
    "a thread of no process": "UPDATE thread SET process = 70000 WHERE id = 3",
    "sizes of no site": "UPDATE site_size SET site = 70000 WHERE site = 9",
    "a mapping of no module": "UPDATE mapping SET module = 70000 WHERE process = 4",
    "a stack that is its own caller": "UPDATE stack SET parent = id WHERE id = 3",
    "a key twice":
        "CREATE TABLE a AS SELECT * FROM api; DROP TABLE api; ALTER TABLE a RENAME TO api;"
        " INSERT INTO api SELECT * FROM api WHERE process = 6",
    "a view for a table":
        "ALTER TABLE site RENAME TO s; CREATE VIEW site AS SELECT * FROM s",
}


def test_what_is_kept_refers_to_nothing(record, abandoned, tmp_path):
    """Nothing of it is believed, and nothing lost: it is left where it was."""
    for name, change in FALSE.items():
        session, kept = abandoned()
        with sqlite3.connect(kept) as profile:
            profile.executescript(change)
        profile.close()
        answer = subprocess.run([record.tool, "report", session], text=True, capture_output=True,
                                timeout=60, check=False)
        assert answer.returncode == 125 and "UNIQUE" not in answer.stderr, (name, answer.stderr)
        path = tmp_path / "rest.mgp"
        answer = subprocess.run([record.tool, "recover", "-o", path, session], text=True,
                                capture_output=True, timeout=60, check=False)
        assert answer.returncode == 0, (name, answer.stderr)
        words = " ".join(answer.stderr.split())
        assert f"{kept} is left where it is" in words and "UNIQUE" not in words, (name, words)
        rest = report(record.tool, path, sites=0)
        assert sum(loss["count"] for process in rest.processes for loss in process["losses"]) >= 60, name
        assert kept.exists() and not session.exists(), name
        assert not list(tmp_path.glob(".mallograph-*")), name


@pytest.mark.parametrize("change", [FALSE["a process of another id"], "INSERT INTO string VALUES (90000, 'x')"])
def test_somebody_writes_into_what_is_kept(record, waiting, tmp_path, change):
    """While the tool does, who goes by what it wrote itself. It looks, and has it read anew."""
    tool, session, profile, said = waiting(130)
    wait_for(lambda: blocks_of(session) < 1 << 20)
    with sqlite3.connect(session.with_suffix(".mgp"), timeout=10) as kept:
        kept.executescript(change)
    kept.close()
    tool.stdin.close()
    assert tool.wait(60) == 0
    everybody = [one for one in read_said(said) if one.words.get("role")]
    if profile.exists():  # what was added harms nobody
        assert_exact(report(record.tool, profile, sites=0), everybody)
        return
    rest = recovered(record, session, tmp_path / "rest.mgp")
    assert sum(loss["count"] for process in rest.processes for loss in process["losses"]) >= 60
    session.with_suffix(".mgp").unlink()


def test_a_pipe_beside_a_session_is_not_waited_for(record, waiting, tmp_path):
    tool, session, _, said = waiting(130)
    wait_for(lambda: blocks_of(session) < 1 << 20)
    abandon(tool, said)
    os.mkfifo(session.with_suffix(".mgp-journal"))
    rest = recovered(record, session, tmp_path / "rest.mgp")
    assert [loss["kind"] for process in rest.processes for loss in process["losses"]] == ["missed_process"]


LEADERLESS = """
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *work(void *nothing)
{
	char byte;
	for (int i = 0; i < 100; i++) { void *volatile p = malloc(24); free(p); }
	if (read(0, &byte, 1) < 0) _exit(1);
	for (int i = 0; i < 100; i++) { void *volatile p = malloc(24); free(p); }
	_exit(0);
	return nothing;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, work, NULL);
	write(1, "r", 1);
	pthread_exit(NULL);
}
"""


def test_a_process_goes_on_without_its_first_thread(record, cc, tmp_path):
    """It is told as running, and recovered when it is over."""
    program = cc("leaderless", LEADERLESS, "-pthread", "-w")
    tool = subprocess.Popen([record.tool, "-q", "-o", tmp_path / "x.mgp", program],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert tool.stdout.read(1) == b"r"
    session = session_of(tool.pid)
    pid = int(session.name.partition("-")[0])
    wait_for(lambda: report(record.tool, session, sites=0).root["allocations"] >= 100)
    tool.send_signal(signal.SIGKILL)
    tool.wait()
    answer = subprocess.run([record.tool, "recover", session], text=True, capture_output=True,
                            cwd=tmp_path, check=False)
    assert session.exists() and "still run" in " ".join(answer.stderr.split())
    tool.stdin.close()
    wait_for(lambda: not os.path.exists(f"/proc/{pid}/task") or not os.listdir(f"/proc/{pid}/task"))
    assert recovered(record, session, tmp_path / "y.mgp").root["allocations"] >= 200
