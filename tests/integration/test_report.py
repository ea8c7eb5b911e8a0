"""The report command over ledgers that no agent wrote: the fuzz target's corpus."""

import json
import re
import subprocess

import pytest

KEYS = ["allocations", "frees", "allocated_bytes", "peak_bytes", "peak_blocks", "live_bytes",
        "live_blocks", "temporary"]


def write_ledger(corpus_file, path):
    """A corpus file (tests/fuzz/replay.c) as the sparse file it stands for."""
    with open(path, "wb") as out:
        for line in corpus_file.read_text().splitlines():
            if line.startswith("#") or not line:
                continue
            first, rest = line.split(" ", 1)
            if first == "pages":
                out.truncate(int(rest) * 4096)
                continue
            out.seek(int(first, 16))
            out.write(bytes.fromhex(rest.replace(" ", "")))
    return path


@pytest.fixture
def sample(root, tmp_path):
    return write_ledger(root / "tests/fuzz/ledger_reader.corpus/sample.txt", tmp_path / "s.mgl")


def run(mallograph, *words):
    return subprocess.run([mallograph, "report", *words], capture_output=True, timeout=20)


def report(mallograph, *words):
    done = run(mallograph, "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def total(counts):
    return {key: sum(c[key] for c in counts) for key in KEYS}


def test_sites_and_others_add_up(mallograph, sample):
    whole = report(mallograph, "--sites", "all", sample)
    assert len(whole["sites"]) == 6
    assert whole["others"] == dict.fromkeys(KEYS, 0)
    assert total(whole["sites"]) == total(whole["processes"])
    for limit in range(8):
        part = report(mallograph, "--sites", str(limit), sample)
        assert part["sites"] == whole["sites"][:limit]
        assert total([*part["sites"], part["others"]]) == total(whole["sites"])


@pytest.mark.parametrize("view, key", [
    ("--peak", "peak_bytes"), ("--live", "live_bytes"), ("--allocations", "allocations"),
    ("--bytes", "allocated_bytes"), ("--temporary", "temporary"),
])
def test_views_order_sites(mallograph, sample, view, key):
    values = [site[key] for site in report(mallograph, view, sample)["sites"]]
    assert values == sorted(values, reverse=True) and values[0] > values[-1]


def test_names_are_those_of_the_contract(mallograph, sample):
    whole = report(mallograph, sample)
    assert set(whole) == {
        "format", "version", "processes", "tree", "sites", "others", "sources",
    }
    assert (whole["format"], whole["version"]) == ("mallograph-report", 1)
    assert set(whole["processes"][0]) == {
        "id", "parent", "how", "pid", "ppid", "exe", "command", "end", "start_s", "duration_s",
        "allocations", "frees", "failed", "unknown_frees", "inherited_frees", "allocated_bytes", "peak_bytes",
        "peak_blocks", "peak_time_s", "peak_error_bytes", "live_blocks", "live_bytes",
        "temporary", "threads", "mapped_bytes", "rss_peak_bytes", "ledger_bytes",
        "tree_peak_bytes", "source", "losses",
    }
    assert set(whole["tree"]) == {
        "processes", "allocations", "frees", "failed", "allocated_bytes", "peak_bytes",
        "peak_most_bytes", "peak_time_s", "live_bytes", "live_blocks", "temporary",
    }
    assert set(whole["sites"][0]) == {"process", "function_called", "sizes", "stack", *KEYS}
    assert set(whole["sites"][0]["stack"][0]) == {
        "function", "file", "line", "column", "module", "offset", "inlined",
    }


def test_damaged_ledgers_are_read_or_refused(root, mallograph, tmp_path):
    for corpus_file in sorted((root / "tests/fuzz/ledger_reader.corpus").glob("*.txt")):
        ledger = write_ledger(corpus_file, tmp_path / "x.mgl")
        done = run(mallograph, "--json", ledger)
        if done.returncode == 0:
            json.loads(done.stdout)
        else:
            assert done.returncode == 125 and not done.stdout
            assert str(ledger) in done.stderr.decode().replace("\n            ", "")
        assert run(mallograph, ledger).returncode == done.returncode


def test_refusals_say_what_is_wrong(mallograph, sample, tmp_path):
    def refused(path):
        done = run(mallograph, path)
        assert done.returncode == 125 and not done.stdout
        return " ".join(done.stderr.decode().split())

    data = bytearray(sample.read_bytes()[:12288])
    cut = tmp_path / "cut.mgl"
    cut.write_bytes(data)
    assert "cut short: 12288 of" in refused(cut)
    data[8] = 9
    other = tmp_path / "other.mgl"
    other.write_bytes(data)
    assert "layout 9, written by mallograph test" in refused(other)
    empty = tmp_path / "empty.mgl"
    empty.touch()
    assert "not a mallograph profile or ledger" in refused(empty)
    assert "not a file" in refused(tmp_path)
    assert "No such file" in refused(tmp_path / "none.mgl")


def test_lines_fit_a_terminal(mallograph, sample):
    lines = run(mallograph, "--sites", "all", sample).stdout.decode().splitlines()
    assert max(map(len, lines)) <= 80


def test_the_corpus_is_of_this_layout(root):
    """Of another one the reader refuses it before it sees what is wrong with it."""
    layout = (root / "src/ledger/layout.h").read_text()
    version = int(re.search(r"define MGL_LAYOUT_VERSION (\d+)u", layout)[1])
    for path in (root / "tests/fuzz/ledger_reader.corpus").glob("*.txt"):
        head = re.search(r"^0 \w{16} (\w{8})", path.read_text(), re.M)[1]
        assert int.from_bytes(bytes.fromhex(head), "little") == version, path
