"""Stacks of many kinds against libunwind's, and the incremental walk against the whole one."""

import os
import subprocess

import pytest


@pytest.fixture(scope="module")
def xcheck(root, build):
    if not (build / "tests/xcheck/mallograph").exists():
        pytest.skip("no static library of libunwind")

    def run(*words):
        return subprocess.run([root / "tools/xcheck", *words], capture_output=True, text=True,
                              env={**os.environ, "BUILD": str(build)})

    return run


def test_stacks_of_every_kind_are_libunwinds(xcheck):
    done = xcheck("--quick")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_stacks_of_large_programs_are_libunwinds(xcheck):
    done = xcheck()
    assert done.returncode == 0, done.stdout + done.stderr
