"""Where ledger and summary go, and what happens where they cannot."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def as_nobody(mallograph, agent):
    """as_nobody(*words, cwd=): the tool as a user without rights, from a copy it can reach."""
    top = Path(tempfile.mkdtemp(dir="/dev/shm"))
    top.chmod(0o755)
    for file in mallograph, agent:
        shutil.copy(file, top)
    runtime = top / "runtime"
    runtime.mkdir(mode=0o700)
    user = 65534 if os.geteuid() == 0 else None
    if user:
        os.chown(runtime, user, user)

    def run(*words, cwd, **options):
        return subprocess.run(
            [top / "mallograph", *words], cwd=cwd, capture_output=True, text=True, user=user,
            group=user, extra_groups=[] if user else None, timeout=60,
            env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)}, **options,
        )

    run.top = top
    yield run
    shutil.rmtree(top)


def test_default_name_and_the_next_free_one(run, tmp_path):
    # exec keeps the pid that the name bears.
    script = 'touch mallograph.sh.$$.mgp mallograph.sh.$$.1.mgp; exec true'
    assert run("-q", "sh", "-c", script).returncode == 0
    names = sorted(p.name for p in tmp_path.iterdir())
    pid = names[0].split(".")[2]
    assert names == [f"mallograph.sh.{pid}.{n}mgp" for n in ("1.", "2.", "")]
    assert [(tmp_path / name).stat().st_size > 0 for name in names] == [False, True, False]


def test_a_name_expands(run, tmp_path):
    (tmp_path / "d").mkdir()
    assert run("-q", "-o", "d/%n-%p-%h-%t-%%.x", "true").returncode == 0
    (made,) = (tmp_path / "d").iterdir()
    assert re.fullmatch(
        rf"true-\d+-{re.escape(socket.gethostname())}-\d{{8}}T\d{{6}}Z-%\.x", made.name)


@pytest.mark.parametrize("word", ["%q", "x%", "-", ""])
def test_a_name_that_means_nothing(run, tmp_path, word):
    result = run("-o", word, "touch", "started", text=True)
    assert result.returncode == 2
    assert result.stderr.startswith("mallograph: ")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_replaced_whole(run, tmp_path):
    target = tmp_path / "x.mgl"
    target.write_text("before")
    (tmp_path / "link").symlink_to("x.mgl")
    # While it runs the old one still stands there.
    result = run("-q", "-o", "link", "cat", "x.mgl", text=True)
    assert result.stdout == "before"
    assert (tmp_path / "link").is_symlink()
    assert target.read_bytes()[:8] == b"MGLEDGR1"


def test_a_ledger_obeys_the_umask_and_stays_sparse(run, tmp_path):
    assert run("-q", "-o", "x.mgl", "true", umask=0o027).returncode == 0
    st = (tmp_path / "x.mgl").stat()
    assert st.st_mode & 0o777 == 0o640
    assert st.st_blocks * 512 < st.st_size / 4


def test_dev_null_keeps_no_file(run, tmp_path):
    result = run("-o", "/dev/null", "true", text=True)
    assert result.returncode == 0
    assert "ALLOCATED" in result.stderr and "SAVED" not in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("word, why", [
    (".", "a directory"), ("fifo", "not a regular file"), ("none/x.mgl", "No such file"),
    ("file/x.mgl", "Not a directory"),
])
def test_a_place_that_cannot_be_written_refuses(run, tmp_path, word, why):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    result = run("-o", word, "touch", "started", text=True)
    assert result.returncode == 125
    assert why in result.stderr
    assert not (tmp_path / "started").exists()


def test_a_forbidden_directory_refuses(as_nobody):
    as_nobody.top.chmod(0o555 if os.geteuid() else 0o755)
    result = as_nobody("sh", "-c", "echo started", cwd=as_nobody.top)
    as_nobody.top.chmod(0o755)
    assert (result.returncode, result.stdout) == (125, "")
    assert "Permission denied" in result.stderr
    assert "-o FILE" in result.stderr


def test_the_directory_may_be_renamed_meanwhile(run, tmp_path):
    (tmp_path / "a").mkdir()
    assert run("-q", "-o", "a/x.mgl", "mv", "a", "b").returncode == 0
    assert (tmp_path / "b" / "x.mgl").exists()


def test_a_full_disk_refuses(mallograph, runtime, tmp_path, in_namespace):
    (tmp_path / "full").mkdir()
    result = in_namespace(
        'mount -t tmpfs -o size=64k none full && head -c 100k /dev/zero >full/x; '
        '"$1" -o full/y.mgl touch started', mallograph,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)}, cwd=tmp_path)
    assert result.returncode == 125, result.stderr
    assert "No space left" in result.stderr
    assert not (tmp_path / "started").exists()


def test_a_disk_that_fills_up_loses_nothing(run, mallograph, runtime, tmp_path, in_namespace):
    (tmp_path / "full").mkdir()
    env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    result = in_namespace(
        'mount -t tmpfs -o size=64k none full; '
        '"$1" -o full/y.mgl sh -c "head -c 100k /dev/zero >full/x; exit 5"; code=$?; ls -A full; exit $code',
        mallograph, env=env, cwd=tmp_path)
    assert result.returncode == 5, result.stderr
    assert result.stdout == "x\n"
    assert "No space left" in result.stderr and "ALLOCATED" in result.stderr
    assert "mallograph recover" in result.stderr
    assert len(list((runtime / "mallograph").iterdir())) == 1
    (session,) = (runtime / "mallograph").iterdir()
    recovered = run("recover", session, text=True)
    assert "recovered" in recovered.stderr and "y.mgl" in recovered.stderr
    assert (tmp_path / "full" / "y.mgl").stat().st_size > 0
    assert list((runtime / "mallograph").iterdir()) == []


def test_no_room_for_the_session_refuses(mallograph, tmp_path, in_namespace):
    result = in_namespace(
        'mount -t tmpfs -o size=16k none /dev/shm; head -c 100k /dev/zero >/dev/shm/x; '
        '"$1" touch started', mallograph,
        env={k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"}, cwd=tmp_path)
    assert result.returncode == 125, result.stderr
    assert "No space left" in result.stderr and "XDG_RUNTIME_DIR" in result.stderr
    assert not (tmp_path / "started").exists()


def test_summary_to_a_file(run, tmp_path):
    result = run("-o", "x.mgl", "--summary", "s.txt", "sh", "-c", "exit 3", text=True)
    assert (result.returncode, result.stderr) == (3, "")
    assert "ALLOCATED" in (tmp_path / "s.txt").read_text()


@pytest.mark.parametrize("word", ["none/s.txt", ".", ""])
def test_a_summary_that_cannot_be_written_refuses(run, tmp_path, word):
    result = run("--summary", word, "touch", "started", text=True)
    assert result.returncode == 125
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("kind", ["link", "open", "file"])
def test_a_session_directory_others_can_reach_is_not_used(run, runtime, tmp_path, kind):
    place = runtime / "mallograph"
    if kind == "link":
        (runtime / "elsewhere").mkdir(mode=0o700)
        place.symlink_to("elsewhere")
    elif kind == "open":
        place.mkdir()
        place.chmod(0o750)
    else:
        place.touch()
    script = 'ls /dev/shm/mallograph-$(id -u) | grep -c "^$$-"'
    assert run("-q", "sh", "-c", script).stdout == b"1\n"
    assert list(runtime.rglob("*.mgl")) == []


def test_no_session_directory_at_all_refuses(mallograph, runtime, tmp_path, in_namespace):
    (runtime / "mallograph").touch()
    result = in_namespace(
        'mount -t tmpfs -o ro none /dev/shm; "$1" touch started', mallograph,
        env={**os.environ, "XDG_RUNTIME_DIR": "/nowhere"}, cwd=tmp_path)
    assert result.returncode == 125, result.stderr
    assert "Read-only" in result.stderr and "XDG_RUNTIME_DIR" in result.stderr


def test_a_large_file_limit_of_the_program_is_not_ours(run, tmp_path):
    result = run("-q", "-o", "x.mgl", "sh", "-c", "ulimit -f", text=True,
                 preexec_fn=lambda: __import__("resource").setrlimit(1, (512 << 10, -1)))
    assert result.stdout.strip() in ("1024", "512")
    assert (tmp_path / "x.mgl").stat().st_size > 512 << 10
