"""Command lines at random: whatever is typed, the tool answers with a status of its own, in time,
and says nothing of a sanitizer's."""

import os
import random
import subprocess

import pytest

WORDS = (
    "run attach detach save report blocks hist top leaks diff check merge export flame html query "
    "symbolize doctor info env recover"
).split()
OPTIONS = (
    "-o -q -p -h --help --version --output --sites --tree --tree=bottom-up --json --live --peak "
    "--allocations --bytes --temporary --of --by --process --quantize --lquantize --alloc-fn --color "
    "--color=auto --max-ledger --max-depth --blocks --no-symbols --debug-dir --sysroot --list-missing "
    "--summary --no-follow --only --not -- - --= --sites= -oq -qqq --no-debuginfod --file --host"
).split()
VALUES = [
    "", " ", "0", "-1", "1", "99999999999999999999", "1K", "64M", "1e9", "0x10", "all", "size", "lifetime",
    "thread", "1:2:3", "0:0:0", "::", "5:1:1", "-5:5:1", "%p", "%", "%%%n%h%t", "/dev/null", "/", ".", "..",
    "nowhere", "x.mgp", "whole.mgp", "half.mgp", "whole.mgl", "\u00e9\u00fc", "a" * 5000, "\n", "\x1b[31m", "*",
    "[", "select 1", "select * from site; drop table site", "' or 1", "2>&1", "1", "4711", "999999999",
]  # fmt: skip


@pytest.fixture
def place(run, tmp_path):
    """Where there is a profile, a ledger, and half a profile."""
    run("-q", "-o", "whole.mgp", "ls", "/")
    run("-q", "-o", "whole.mgl", "true")
    whole = (tmp_path / "whole.mgp").read_bytes()
    (tmp_path / "half.mgp").write_bytes(whole[: len(whole) // 2])
    return tmp_path


def random_command(draw):
    words = []
    if draw.random() < 0.9:
        words.append(draw.choice(WORDS))
    for _ in range(draw.randrange(6)):
        words.append(draw.choice(OPTIONS if draw.random() < 0.5 else VALUES))
    if not words or words[0] not in WORDS or words[0] == "run":
        words.append("true")  # a program that may be run
    # Neither a program of somebody's nor a process that is not ours.
    return [word for word in words if word not in ("1", "4711")]


def try_commands(mallograph, runtime, place, seed, count):
    draw = random.Random(seed)
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "PAGER": "cat", "ASAN_OPTIONS": "exitcode=99"}
    for _ in range(count):
        words = random_command(draw)
        try:
            answer = subprocess.run(
                [mallograph, *words], cwd=place, env=environment, stdin=subprocess.DEVNULL,
                capture_output=True, timeout=60, check=False)
        except ValueError:  # a NUL
            continue
        assert answer.returncode in (0, 1, 2, 125, 126, 127), (words, answer)
        assert b"runtime error" not in answer.stderr, (words, answer)
        # What failed says so, and what the terminal would obey is not sent there.
        assert answer.returncode == 0 or answer.stderr or answer.stdout, words
        assert b"\x1b[31m" not in answer.stderr, words


def test_some(mallograph, runtime, place):
    try_commands(mallograph, runtime, place, 1, 120)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 10))
def test_many(mallograph, runtime, place, seed):
    try_commands(mallograph, runtime, place, seed, 500)
