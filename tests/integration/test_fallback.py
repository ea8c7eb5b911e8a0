"""Without a collector: the agent preloaded by hand, its ledger readable alive and dead, and a
target that is never disturbed by what its surroundings refuse."""

import functools
import os
import resource
import subprocess

import pytest

from oracle import PEAK, SITE_TOTALS, TOTALS, peak, read_said, report, totals, wait_for

STEPS = ("make:500:100", "free:100", "churn:50", "tree:300")


class ByHand:
    """Starts test programs under the lines `mallograph env` prints."""

    def __init__(self, record):
        self.record = record
        self.tool = record.tool

    @functools.cached_property
    def environment(self):
        """What the lines make of the environment."""
        show = "printf '%s\\n' \"$LD_PRELOAD\" \"$MALLOGRAPH_OUT\""
        script = f'exports=$("{self.tool}" env) || exit 88; eval "$exports"; {show}'
        answer = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        preload, out = answer.stdout.splitlines()
        return {**os.environ, "LD_PRELOAD": preload, "MALLOGRAPH_OUT": out}

    def start(self, *steps, out=None, program="script", preexec_fn=None, **more):
        ledger, said = self.record.new_paths()
        ledger = out or ledger
        process = subprocess.Popen(
            [str(a) for a in (self.record.program(program), said, *steps)],
            env={**self.environment, "MALLOGRAPH_OUT": str(ledger)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=preexec_fn,
            **more,
        )
        return process, ledger, said

    def run(self, *steps, returncode=0, **more):
        """A program to its end: (ledger, what it said). It wrote nothing of the agent's."""
        process, ledger, said = self.start(*steps, **more)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == returncode, errors
        assert (out, errors) == ("", "")
        return ledger, read_said(said)


@pytest.fixture
def by_hand(record):
    return ByHand(record)


def assert_exact(process, said):
    assert totals(process) == {**said.only(TOTALS), "temporary": process["temporary"]}
    assert peak(process) == said.only(PEAK)
    assert process["unknown_frees"] == 0


def assert_told(process, said):
    """Recorded to the end, or every allocation that is missing has been counted."""
    losses = {loss["kind"]: loss["count"] for loss in process["losses"]}
    lost = losses.get("unrecorded", 0)
    assert process["allocations"] + lost == said["allocations"]
    if lost == 0:
        assert_exact(process, said)


def test_env_prints_exports(record):
    lines = subprocess.run(
        [record.tool, "env"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert lines
    assert all(line.startswith("export ") for line in lines)
    assert any("LD_PRELOAD=" in line and "libmallograph-agent.so" in line for line in lines)
    assert any("MALLOGRAPH_OUT=" in line for line in lines)


@pytest.mark.parametrize("end, returncode", [("exit:0", 0), ("kill", -9), ("exit:5", 5)])
def test_readable_when_dead(by_hand, end, returncode):
    ledger, (said,) = by_hand.run(*STEPS, "say", end, returncode=returncode)
    root = report(by_hand.tool, ledger, 0).root
    assert_exact(root, said)
    assert root["losses"] == []
    assert root["pid"] == said.pid


def test_readable_while_it_lives(by_hand):
    """Idle: exact at every stop. Then it is killed."""
    process, ledger, said_path = by_hand.start(*STEPS, "say", "wait", "free:200", "say", "wait")
    by_hand.record.ready(said_path)
    root = report(by_hand.tool, ledger, 0).root
    assert_exact(root, read_said(said_path)[0])
    assert root["end"]["kind"] == "running"
    assert root["live_bytes_low"] == root["live_bytes"]
    assert root["live_blocks_low"] == root["live_blocks"]
    process.stdin.write("\n")
    process.stdin.flush()
    by_hand.record.ready(said_path, 2)
    root = report(by_hand.tool, ledger, 0).root
    assert_exact(root, read_said(said_path)[1])
    process.kill()
    process.communicate()
    after = report(by_hand.tool, ledger, 0).root
    assert totals(after) == totals(root)
    assert after["end"]["kind"] != "running"


def test_bounds_while_it_is_busy(by_hand):
    """Four threads without rest, each with 0 to 2 blocks besides what is known to be live."""
    process, ledger, said_path = by_hand.start("make:1000:64", "busy:4", "say", "wait")
    by_hand.record.ready(said_path)
    widths = []
    for _ in range(8):
        root = report(by_hand.tool, ledger, 0).root
        runtime = 16  # blocks the C library may hold for four threads
        assert root["live_blocks_low"] <= 1000 + 4 * 2 + runtime
        assert root["live_blocks"] >= 1000
        assert root["live_blocks_low"] <= root["live_blocks"]
        assert root["live_bytes_low"] <= 64000 + 4 * 1024 + 16384
        assert root["live_bytes"] >= 64000
        widths.append(root["live_blocks"] - root["live_blocks_low"])
    process.kill()
    process.communicate()
    assert min(widths) < 100000


def has_begun(ledger):
    """The file is there before its first words are, and those say what it is."""
    if not ledger.exists():
        return False
    with open(ledger, "rb") as file:
        return file.read(8) == b"MGLEDGR1"


def test_reading_disturbs_and_is_disturbed_by_nothing(by_hand):
    """Read again and again while eight threads allocate: nothing in it is ever damaged."""
    process, ledger, said_path = by_hand.start(7, 40000, 8, program="oracle_mix")
    wait_for(lambda: has_begun(ledger))
    before = 0
    while process.poll() is None:
        processes = report(by_hand.tool, ledger, 0).processes
        if not processes or processes[0]["end"]["kind"] != "running":
            continue  # not begun, or over
        (root,) = processes
        assert [x for x in root["losses"] if x["kind"] != "unfinished_calls"] == []
        assert root["live_blocks_low"] <= root["live_blocks"]
        assert root["allocations"] >= before
        before = root["allocations"]
    process.communicate()
    assert process.returncode == 0
    (said,) = read_said(said_path)
    profile = report(by_hand.tool, ledger)
    own = profile.of_program(profile.root)
    assert {k: own[k] for k in SITE_TOTALS} == said.only(SITE_TOTALS)


def limits(**values):
    def apply():
        for name, value in values.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))

    return apply


def test_file_size_limit_from_the_start(by_hand):
    """No ledger may be larger than this: it stays small or is missing, and nobody gets SIGXFSZ."""
    ledger, (said,) = by_hand.run(*STEPS, "say", preexec_fn=limits(FSIZE=1 << 20))
    assert said["allocations"] == 850
    assert not ledger.exists()
    ledger, (said,) = by_hand.run(*STEPS, "say", preexec_fn=limits(FSIZE=40 << 20))
    assert_exact(report(by_hand.tool, ledger, 0).root, said)


@pytest.mark.parametrize(
    "limit", ["fsize:16384", "nofile:0", "nofile:3", "as:33554432", "as:16777216"]
)
def test_limits_set_later(by_hand, limit):
    ledger, (said,) = by_hand.run("make:10:10", limit, "make:490:100", "tree:30000", "say")
    assert said["allocations"] == 30500
    assert_told(report(by_hand.tool, ledger, 0).root, said)


def test_no_descriptor_from_the_start(by_hand):
    """RLIMIT_NOFILE as low as the program bears: it needs one to say its counts."""
    ledger, (said,) = by_hand.run(*STEPS, "say", preexec_fn=limits(NOFILE=4))
    assert said["allocations"] == 850
    if ledger.exists():
        assert_told(report(by_hand.tool, ledger, 0).root, said)


def test_all_descriptors_closed(by_hand):
    ledger, (said,) = by_hand.run("make:10:10", "close", "tree:40000", "say")
    assert_exact(report(by_hand.tool, ledger, 0).root, said)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_chroot_and_other_user(by_hand, tmp_path):
    (tmp_path / "root").mkdir()
    steps = ("make:10:10", f"chroot:{tmp_path / 'root'}", "setuid:65534", "tree:40000", "say")
    ledger, (said,) = by_hand.run(*steps)
    assert_exact(report(by_hand.tool, ledger, 0).root, said)


def test_no_place_for_the_ledger(by_hand):
    """A path that cannot be made: the target runs as if nothing were."""
    process, _, said_path = by_hand.start(*STEPS, "say", out="/nonexistent/place/x.mgl")
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert (out, errors) == ("", "")
    assert read_said(said_path)[0]["allocations"] == 850


@pytest.fixture
def small_tmpfs(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a tmpfs")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "none", place], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no tmpfs may be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_full_filesystem(by_hand, small_tmpfs):
    """Full from some moment on: no SIGBUS, and what is missing is counted."""
    ledger, (said,) = by_hand.run("tree:200000", "say", out=small_tmpfs / "full.mgl")
    assert said["allocations"] == 200000
    root = report(by_hand.tool, ledger, 0).root
    losses = {loss["kind"]: loss["count"] for loss in root["losses"]}
    assert losses["unrecorded"] > 0
    assert_told(root, said)


def test_filesystem_full_from_the_start(by_hand, small_tmpfs):
    filler = os.open(small_tmpfs / "filler", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError):
        while os.write(filler, bytes(4096)):
            pass
    os.close(filler)
    ledger, (said,) = by_hand.run(*STEPS, "say", out=small_tmpfs / "none.mgl")
    assert said["allocations"] == 850
    assert not ledger.exists()


def test_two_at_once_do_not_share_a_file(by_hand):
    """%p in the name; a second process that finds a live one's file takes another."""
    pattern = by_hand.record.folder / "many.%p.mgl"
    runs = [by_hand.start(*STEPS, "say", out=pattern) for _ in range(3)]
    for process, _, said_path in runs:
        process.communicate(timeout=60)
        (said,) = read_said(said_path)
        path = by_hand.record.folder / f"many.{said.pid}.mgl"
        assert_exact(report(by_hand.tool, path, 0).root, said)


def test_forked_children_share_the_file(by_hand):
    ledger, all_said = by_hand.run("chain", "10", program="forks")
    profile = report(by_hand.tool, ledger)
    assert len(all_said) == 11
    for said in all_said:
        assert totals(profile.of_pid(said.pid)) == said.only(TOTALS)
