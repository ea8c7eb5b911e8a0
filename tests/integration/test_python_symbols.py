"""CPython's own C functions, from the debug files Debian has for it: found by build-id alone."""

import json
import os
import pathlib

import pytest

from symbols_help import build_id
from test_doctor import Answer

SCRIPT = """\
import json
data = json.dumps([{"n": i, "s": "x" * 20} for i in range(20000)])
keep = json.loads(data)
table = {i: str(i) for i in range(20000)}
"""


@pytest.fixture(scope="module")
def python():
    """The system's interpreter, and its debug file."""
    path = pathlib.Path("/usr/bin/python3").resolve()
    id = build_id(path) if path.exists() else "none"
    debug = pathlib.Path("/usr/lib/debug/.build-id") / id[:2] / f"{id[2:]}.debug"
    if not debug.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("python3-dbg is not installed, or of another version")
    return path, debug


def test_the_interpreters_functions_have_lines(run, python, tmp_path):
    path, debug = python
    (tmp_path / "s.py").write_text(SCRIPT)
    assert run("-q", "-o", "x.mgp", path, "s.py").returncode == 0
    report = json.loads(run("report", "--json", "--sites", "all", "x.mgp").stdout)
    frames = [frame for site in report["sites"] for frame in site["stack"] if frame["module"] == str(path)]
    assert len(frames) > 1000
    unnamed = [frame for frame in frames if not frame["function"] or not frame["file"] or not frame["line"]]
    # Assembly's entry is all that may be without.
    assert {frame["function"] for frame in unnamed} <= {"_start"}
    found = {frame["function"]: os.path.basename(frame["file"]) for frame in frames if frame["file"]}
    assert found.items() >= {"list_resize": "listobject.c", "dictresize": "dictobject.c",
                             "_PyEval_EvalFrameDefault": "ceval.c", "Py_RunMain": "main.c"}.items()
    assert any(frame["inlined"] for frame in frames)
    summary = run("report", "--summary", "x.mgp", text=True).stdout
    assert f"{path.name}:" not in summary.partition("SYMBOLS")[2]


def test_the_doctor_shows_where_they_come_from(run, python):
    path, debug = python
    answer = Answer(run("doctor", path, text=True).stdout)
    level, tries, text = answer.modules[str(path)]
    assert level == "full"
    assert tries[-1] == ("build-id", str(debug), "found") and text.endswith(f"so        {debug}")
