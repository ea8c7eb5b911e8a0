"""make bench: its arithmetic, its limits, its table and JSON. Figures are not judged here."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import bars  # noqa: E402
import rows  # noqa: E402
import table  # noqa: E402


def compare(build, tmp_path, *options):
    path = tmp_path / "bench.json"
    command = [sys.executable, ROOT / "bench/compare.py", build, "--json", path, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout, json.loads(path.read_text())


def test_a_row_and_its_json(build, tmp_path):
    output, result = compare(build, tmp_path, "--only", "pair-5", "--runs", "2",
                             "--peers", "none")
    assert result["format"] == "mallograph-bench" and result["version"] == 1
    assert result["machine"]["cores"] >= 1 and result["versions"]["mallograph"]
    (row,) = result["rows"]
    assert row["name"] == "pair-5"
    assert {name: len(runs) for name, runs in row["runs"].items()} == {"native": 2, "mallograph": 2}
    for name, runs in row["runs"].items():
        assert row["medians"][name] == [sum(run[0] for run in runs) / 2]
    assert row["verdicts"] == [{"figure": "added", "value": None, "limit": 0.1, "met": None}]
    assert "pair, depth 5" in output
    assert max(map(len, output.splitlines()[2:])) <= 80


def test_a_row_of_two_limits(build, tmp_path):
    output, result = compare(build, tmp_path, "--only", "true", "--runs", "1", "--peers", "none")
    (row,) = result["rows"]
    assert 0 < row["medians"]["mallograph"][0] < 60000
    milliseconds, part = row["verdicts"]
    assert milliseconds["figure"] == "milliseconds" and milliseconds["met"] is not None
    assert part["figure"] == "part" and part["met"] is None
    assert output.count("\ntrue ") == 1


@pytest.mark.parametrize("medians, value, met", [
    ({"native": [10], "mallograph": [30], "heaptrack": [210]}, 0.1, True),
    ({"native": [10], "mallograph": [31], "heaptrack": [210]}, 0.105, False),
    ({"native": [10], "mallograph": [30]}, None, None),
])
def test_cost_added_is_what_is_compared(medians, value, met):
    assert bars.judge("pair-5", medians) == [
        {"figure": "added", "value": value, "limit": 0.1, "met": met}]


def test_symbolizers_are_compared():
    medians = {"mallograph": [2.0, 1.2], "llvm-symb.": [3.0, 3.5]}
    part, memory = bars.judge("symbols-cold", medians)
    assert part["value"] == pytest.approx(2 / 3) and part["met"]
    assert memory["value"] == 1.2 and memory["met"]
    (warm,) = bars.judge("symbols-warm", medians)
    assert warm["met"] is False


def test_growth_is_of_the_cost_added():
    medians = {"native": [10, 20], "mallograph": [32, 40]}
    (verdict,) = bars.judge("pair-30-4-threads", medians)
    assert verdict["value"] == pytest.approx(1.1)


def test_every_limit_has_its_row():
    names = [row.name for row in rows.ROWS]
    assert len(set(names)) == len(names)
    assert set(bars.BARS) <= set(names)


def test_many_peers_fit_a_terminal():
    names = [f"peer {i}" for i in range(6)]
    medians = {name: [1e9] for name in ("native", "mallograph", *names)}
    row = {"title": "of a very long title that is cut", "medians": medians, "unit": "ns"}
    text = "\n".join(table.others([row], names))
    assert all(name in text for name in names)
    assert max(map(len, text.splitlines())) <= 80


def test_a_missed_limit_says_so():
    medians = {"native": [1.0], "mallograph": [1.3], "heaptrack": [2.0]}
    row = {"title": "jq", "unit": "s", "columns": ["s"], "medians": medians, "failed": {},
           "verdicts": bars.judge("jq", medians)}
    (line,) = table.lines(row)
    assert line.split()[-5:] == ["x", "1.30", "x", "1.20", "MISSED"]
    assert "+0.30" in line and "+1.00" in line
