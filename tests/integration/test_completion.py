"""Completion in bash offers what --help lists, and stays out of the program's own words."""

import re
import subprocess

import pytest

COMMANDS = ["run", "report", "blocks", "hist", "info", "symbolize", "doctor", "query",
            "merge", "recover", "env"]


@pytest.fixture
def complete(root, tmp_path):
    """complete(*words): what is offered for the last word."""

    def offered(*words):
        script = (f'source {root}/completion/mallograph; COMP_WORDS=("$@"); '
                  'COMP_CWORD=$(($# - 1)); _mallograph; printf "%s\\n" "${COMPREPLY[@]}"')
        result = subprocess.run(["bash", "-c", script, "bash", "mallograph", *words], cwd=tmp_path,
                                capture_output=True, text=True, timeout=20)
        assert (result.returncode, result.stderr) == (0, ""), result.stderr
        return set(result.stdout.split())

    return offered


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_options_are_those_of_help(run, complete, name):
    words = [name] if name else []
    text = run(*words, "--help", text=True).stdout
    listed = re.findall(r"^  (?:(-\w), |    )(--[\w-]+)", text, re.M)
    wanted = {word for pair in listed for word in pair if word}
    offered = complete(*words, "-")
    assert {word.split("=")[0] for word in offered} == wanted


def test_commands_are_those_of_help(run, complete):
    listed = re.findall(r"^  (\w+)  ", run("--help", text=True).stdout.split("Commands")[1], re.M)
    assert sorted(listed) == sorted(COMMANDS)
    assert set(listed) <= complete("")
    assert "report" in complete("rep") and "true" in complete("tru")


@pytest.mark.parametrize("words, offered", [
    (["report", "--color", ""], {"auto", "always", "never"}),
    (["report", "--color", "=", "a"], {"auto", "always"}),
    (["report", "--color", "="], {"auto", "always", "never"}),
    (["report", "--tree", "=", "b"], {"bottom-up"}),
    (["hist", "--by", "t"], {"thread"}), (["report", "--by", ""], {"process", "program", "rank", "file", "host"}), (["--blocks", ""], {"all"}),
    (["-o", ""], set()), (["report", ""], set()), (["ls", "-"], set()), (["run", "ls", "-"], set()),
    (["-q", "--color", "never", "ls", "rep"], set()), (["--", "report", "-"], set()),
])
def test_values_and_places(complete, words, offered):
    assert complete(*words) == offered


def test_programs_after_options(complete):
    assert "true" in complete("-q", "tru") and "true" in complete("--", "tru")
    assert "true" in complete("-o", "x.mgp", "tru") and "true" in complete("run", "tru")
