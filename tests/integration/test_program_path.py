"""Which file a program is, however it was executed."""

import os
import shutil
import subprocess

import pytest

from oracle import report


def plain(program):
    return [program]


def dotted(program):
    return [f"{program.parent}/./{program.name}"]


def upwards(program):
    return [f"{program.parent}/../{program.parent.name}/{program.name}"]


def slashes(program):
    return [f"/{program}"]


def link(program):
    (program.parent / "link").symlink_to(program)
    return [program.parent / "link"]


def linked_directory(program):
    (program.parent / "there").symlink_to(program.parent)
    return [program.parent / "there" / program.name]


def relative(program):
    return [os.path.relpath(program)]


def script(program):
    text = program.parent / "script"
    text.write_text(f"#!{program}\n")
    text.chmod(0o755)
    return [text]


WAYS = (plain, dotted, upwards, slashes, link, linked_directory, relative, script)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_file_is_known(agent, mallograph, tmp_path, way):
    program = tmp_path.resolve() / "cat"
    shutil.copy(shutil.which("cat"), program)
    ledger = tmp_path / "x.mgl"
    env = {**os.environ, "LD_PRELOAD": str(agent), "MALLOGRAPH_OUT": str(ledger)}
    subprocess.run(way(program), env=env, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL)
    assert report(mallograph, ledger).root["exe"] == str(program)
