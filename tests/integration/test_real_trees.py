"""Trees of real programs: the same answers as ever, and in every process the counts of another
library's counting in the same run."""

import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

import pytest

from oracle import report, wait_for
from programs_help import COUNTS, FIXED, need, run

# What is told and changes no count: processes without the agent, stacks that end in code made at
# run time, and rustc's allocator, which no preload sees.
MAY_LACK = {"missed_process", "cut_stacks", "own_malloc"}


class Counted:
    """What the counting library says of one program that ran."""

    def __init__(self, path):
        pid, _, turn = path.name.partition(".")
        words = struct.unpack("<17Q", path.read_bytes()[:136])
        self.key = (int(pid), int(turn))
        self.counts = dict(zip(COUNTS, words))
        self.inherited = words[16]
        assert words[6] == 0, "the counting library saw frees of blocks that it had not seen"

    def __bool__(self):
        return any(self.counts.values())


def counted_tree(place):
    """By pid: what its programs did, in order; those that did nothing are left out."""
    found = sorted((Counted(path) for path in place.iterdir()), key=lambda one: one.key)
    by_pid = {}
    for one in found:
        if one:
            by_pid.setdefault(one.key[0], []).append(one)
    return by_pid


def is_something(process):
    return process["allocations"] or process["frees"] or process["failed"]


def assert_counts(tree, by_pid):
    """Every program that ran is in the report with its counts, and there are no others."""
    ours = {}
    for process in tree.processes[1:]:  # the first is env, whose agent alone came before
        if is_something(process):
            ours.setdefault(process["pid"], []).append(process)
    assert ours.keys() == by_pid.keys()
    for pid, processes in ours.items():
        told = [" ".join(process["command"])[:100] for process in processes]
        assert len(processes) == len(by_pid[pid]), told
        for process, one in zip(processes, by_pid[pid]):
            found = {key: process[key] for key in COUNTS}
            if process["end"]["kind"] == "running":  # it went on after the root had ended
                assert found["allocations"] <= one.counts["allocations"], told
            else:
                assert found == one.counts, (told, process["losses"], one.inherited)


class Tree:
    """tree(command): recorded, with the counting library between agent and allocator."""

    def __init__(self, record, place):
        self.record = record
        self.place = place

    def __call__(self, command, drive=None, counted=True, env=None, **options):
        counts = self.place / "counts"
        shutil.rmtree(counts, ignore_errors=True)
        counts.mkdir()
        profile = self.place / "tree.mgp"
        library = self.record.library("count_preload")
        before = ["env", f"LD_PRELOAD={library}", f"COUNT_TREE={counts}"] if counted else []
        answer = run([self.record.tool, "-q", "-o", profile, "--", *before, *command], self.place,
                     drive, **(env or {}))
        self.profile = profile
        tree = report(self.record.tool, profile, sites=0)
        for process in tree.processes:
            assert {loss["kind"] for loss in process["losses"]} <= MAY_LACK, process
            if process["parent"] is not None:
                assert process["how"] in ("fork", "vfork", "spawn", "exec")
                assert 0 < process["parent"] < process["id"]
        if counted:
            assert_counts(tree, counted_tree(counts))
        return answer, tree


@pytest.fixture
def tree(record, tmp_path, sanitized):
    if sanitized:
        pytest.skip("a sanitizer must come first")
    return Tree(record, tmp_path)


def programs(tree):
    """{base name: how many} of the programs that ran."""
    found = {}
    for process in tree.processes:
        name = os.path.basename(process["exe"])
        found[name] = found.get(name, 0) + 1
    return found


def test_make(tree, tmp_path):
    need("make", "gcc")
    for i in range(6):
        (tmp_path / f"f{i}.c").write_text(f"#include <stdio.h>\nint f{i}(void) {{ return puts(\"{i}\"); }}\n")
    (tmp_path / "Makefile").write_text(
        "all: lib.a\nlib.a: $(patsubst %.c,%.o,$(wildcard f*.c))\n\tar rcs $@ $^\n"
        "%.o: %.c\n\tgcc -O1 -c $< -o $@\n")
    answer, profile = tree(["make", "-s", "-j2"])
    assert (answer.returncode, answer.stderr) == (0, b"")
    assert subprocess.run(["ar", "t", "lib.a"], cwd=tmp_path, capture_output=True,
                          check=True).stdout.split() == [b"f%d.o" % i for i in range(6)]
    ran = programs(profile)
    assert ran["cc1"] == 6 and sum(ran[name] for name in ran if name.endswith("ar")) == 1


def test_git_clone(tree, tmp_path):
    need("git")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path / "from")]
    (tmp_path / "from").mkdir()
    subprocess.run([*git, "init", "-q"], check=True)
    for i in range(20):
        (tmp_path / "from" / f"{i}").write_text(f"{i}\n" * 100)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "all"], check=True)
    answer, profile = tree(["git", "clone", "-q", "--no-local", "from", "to"])
    assert (answer.returncode, answer.stdout) == (0, b"")
    assert (tmp_path / "to" / "19").read_text() == "19\n" * 100
    assert programs(profile)["git"] >= 3


def test_xargs(tree):
    need("xargs")
    answer, profile = tree(["sh", "-c", "seq 40 | xargs -P 2 -n 1 expr 1 +"])
    assert sorted(answer.stdout.split(), key=int) == [b"%d" % i for i in range(2, 42)]
    assert programs(profile)["expr"] == 40


WORKERS = """
import multiprocessing, sys

def square(n):
    return n * n

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    with multiprocessing.Pool(3) as pool:
        print(sum(pool.map(square, range(1000))))
        pool.close()
        pool.join()
"""


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_multiprocessing(tree, tmp_path, how):
    python = need("/usr/bin/python3")[0]
    (tmp_path / "work.py").write_text(WORKERS)
    answer, profile = tree([python, "work.py", how])
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"332833500\n", b"")
    assert len({process["pid"] for process in profile.processes}) >= 4


def test_nginx(tree, tmp_path):
    """A master and two workers."""
    (nginx,) = need("nginx")
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; worker_processes 2; pid {tmp_path}/pid; error_log {tmp_path}/log;\n"
        f"events {{}} http {{ access_log off; server {{ listen unix:{tmp_path}/socket;\n"
        f"location / {{ return 200 hello; }} }} }}\n")

    def ask():
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "socket"))
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return client.makefile("rb").read().rpartition(b"\r\n\r\n")[2]

    def drive(process):
        wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        said = [ask() for _ in range(20)]
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGQUIT)
        return said

    answer, profile = tree([nginx, "-c", tmp_path / "nginx.conf", "-p", tmp_path], drive)
    assert answer.returncode == 0
    assert answer.heard == [b"hello"] * 20
    assert programs(profile)["nginx"] == 3
    workers = [p for p in profile.processes if p["how"] == "fork"]
    assert [worker["end"] for worker in workers] == [{"kind": "exit", "code": 0}] * 2


def test_pytest(tree, tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import subprocess\ndef test_it():\n    assert subprocess.check_output(['echo', 'x']) == b'x\\n'\n")
    answer, profile = tree([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"])
    assert answer.returncode == 0 and b"1 passed" in answer.stdout
    assert len(profile.processes) >= 3


@pytest.mark.slow
def test_npm(tree, tmp_path):
    need("npm", "node")
    (tmp_path / "package.json").write_text(json.dumps(
        {"name": "x", "version": "1.0.0", "scripts": {"test": "node -e 'console.log(6*7)'"}}))
    # Threads of its own race for what they allocate: the same run has one truth all the same.
    answer, profile = tree(["npm", "test", "--silent"], env={"HOME": str(tmp_path)})
    assert (answer.returncode, answer.stdout) == (0, b"42\n")
    assert programs(profile)["node"] >= 2


@pytest.mark.slow
def test_cargo(tree, tmp_path):
    need("cargo", "rustc")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.rs").write_text('fn main() { println!("{}", vec![1; 7].len()); }')
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n')
    home = {key: os.environ[key] for key in ("HOME", "CARGO_HOME", "RUSTUP_HOME") if key in os.environ}
    answer, profile = tree(["cargo", "run", "-q", "--offline"], env=home, counted=False)
    assert (answer.returncode, answer.stdout) == (0, b"7\n")
    assert "rustc" in programs(profile)


@pytest.mark.slow
def test_go_build(tree, tmp_path):
    """Go's own programs are static: they run as ever, and are told."""
    need("go")
    (tmp_path / "go.mod").write_text("module x\n")
    (tmp_path / "x.go").write_text('package main\nimport "fmt"\nfunc main() { fmt.Println(42) }\n')
    answer, _ = tree(["sh", "-c", "go build -o x . && ./x"], counted=False,
                     env={"HOME": str(tmp_path), "GOFLAGS": "-mod=mod", "GOCACHE": str(tmp_path / "cache")})
    assert (answer.returncode, answer.stdout) == (0, b"42\n")


POSTGRES = """
set -e
initdb -D data -A trust -U me -N >/dev/null
pg_ctl -D data -w -l log -o "-k $PWD -c listen_addresses= -c fsync=off" start >/dev/null
psql -h "$PWD" -U me -d postgres -qAtc 'create table t as select g, g*7%13 k from generate_series(1,20000) g'
for i in 1 2 3; do psql -h "$PWD" -U me -d postgres -qAtc 'select k, count(*) from t group by k order by k limit 1'; done
pg_ctl -D data -w stop >/dev/null
"""


@pytest.fixture
def place_of_all():
    """Where anybody may write: pytest's own places are closed again by the next that starts."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        yield pathlib.Path(place)


@pytest.mark.slow
def test_postgresql(record, mallograph, place_of_all):
    """A server that forks for each connection, and does not run as root."""
    # Debian keeps servers out of PATH.
    homes = [path.parent for path in pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if not homes or not shutil.which("psql"):
        pytest.skip("no PostgreSQL server is installed")
    home = homes[0]
    before = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    answer = subprocess.run(
        [*before, mallograph, "-q", "-o", "tree.mgp", "sh", "-c", POSTGRES], cwd=place_of_all,
        env={**FIXED, "PATH": f"{home}:{os.environ['PATH']}", "HOME": str(place_of_all)},
        capture_output=True, text=True, timeout=300, check=False)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "0|1538\n" * 3, "")
    profile = report(record.tool, place_of_all / "tree.mgp", sites=0)
    assert programs(profile)["postgres"] > 10
    for process in profile.processes:
        assert process["losses"] == [], process
