"""Where commands look for symbols, when told."""

import json
import subprocess

import pytest

from symbols_help import Program


@pytest.fixture
def program(tmp_path):
    (tmp_path / "p").mkdir()
    return Program(tmp_path / "p")


def lines(run, *words):
    """{function: line} of the program's own frames in its source."""
    report = json.loads(run("report", "--json", *words).stdout)
    return {frame["function"]: frame["line"] for site in report["sites"] for frame in site["stack"]
            if frame["module"].endswith("/program") and frame["function"] != "_start"}


EXPECTED = {"hidden": 6, "shown": 10, "main": 14}  # where their calls return to


@pytest.mark.parametrize("name", ["x.mgp", "x.mgl"])
def test_a_debug_directory(run, program, name):
    """Of a profile it counts when it is made, of a ledger when it is read."""
    program.separate(program.by_build_id())
    assert run("-q", "-o", name, "--debug-dir", program.root, program.path).returncode == 0
    assert lines(run, "--debug-dir", program.root, name) == EXPECTED
    if name.endswith(".mgl"):
        assert "hidden" not in lines(run, name)
    else:
        assert lines(run, name) == EXPECTED


def test_a_recovered_recording_too(run, program, runtime):
    program.separate(program.by_build_id())
    exports = run("env", text=True).stdout
    subprocess.run(["sh", "-c", f"{exports}\n{program.path}"], check=True, capture_output=True)
    (ledger,) = (runtime / "mallograph").glob("*.mgl")
    assert run("recover", f"--debug-dir={program.root}", "-o", "x.mgp", ledger).returncode == 0
    assert lines(run, "x.mgp") == EXPECTED


@pytest.mark.parametrize("option", ["--sysroot", "--symfs"])
def test_another_file_system(run, program, tmp_path, option):
    """A ledger from elsewhere: the program is not at its path here."""
    assert run("-q", "-o", "x.mgl", program.path).returncode == 0
    (tmp_path / "tree").mkdir()
    program.path.rename(tmp_path / "tree" / "program")
    assert set(lines(run, "x.mgl")) == {None}
    assert lines(run, option, tmp_path / "tree", "x.mgl") == EXPECTED


def test_without_symbols(run, program):
    assert run("-q", "--no-symbols", "-o", "x.mgp", program.path).returncode == 0
    assert set(lines(run, "x.mgp")) == {None}
    assert "pending" in run("info", "x.mgp", text=True).stdout


@pytest.mark.parametrize("option", ["--debug-dir", "--sysroot", "--symfs"])
def test_a_directory_that_is_none_is_told_before_the_program_runs(run, tmp_path, option):
    for words in (["touch", "made"], ["info"], ["recover"]):
        command = words if words[0] != "touch" else []
        result = run(*command, option, tmp_path / "nowhere", *(words if not command else []),
                     text=True)
        assert result.returncode == 2 and "nowhere" in result.stderr and option in result.stderr
    assert not (tmp_path / "made").exists()
