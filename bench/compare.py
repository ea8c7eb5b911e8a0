"""mallograph beside its peers: compare.py BUILD [OPTION...], --help has them.

Every row is run in turns, native and each peer once a turn, so that what the machine does
meanwhile meets all of them; the median of the turns counts. A row is a class of rows.py,
its limits stand in bars.py. The table goes to standard output, all of it as JSON to FILE.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

import bars
import peers
import rows
import run
import table


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return (done.stdout or done.stderr).partition("\n")[0] or None


def machine():
    """What the figures were measured on."""
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return {
        "cpu": cpu.group(1) if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "load": os.getloadavg()[0],
    }


def versions(build):
    said = {
        "mallograph": first_line(build / "mallograph", "--version"),
        "heaptrack": first_line("heaptrack", "--version"),
        "gcc": first_line("gcc", "--version"),
        "clang": first_line("clang", "--version"),
    }
    return {name: version for name, version in said.items() if version}


def progress(text):
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)


class Bench:
    """What a row's runs are given."""

    def __init__(self, build, directory):
        self.build = build
        self.directory = directory  # for inputs, gone when the bench ends


def measure(row, bench, here, turns):
    """One row, as JSON has it."""
    runs = {peer.name: [] for peer in here}
    failed = {}
    for turn in range(turns):
        for peer in here:
            if peer.name in failed or (turn and type(peer) in row.once_only):
                continue
            progress(f"{row.name} {turn + 1}/{turns} {peer.name}")
            try:
                runs[peer.name].append(row.once(bench, peer))
            except run.Failed as reason:
                failed[peer.name] = str(reason)
    progress("")
    runs = {name: list(each) for name, each in runs.items() if each and name not in failed}
    medians = {name: [statistics.median(column) for column in zip(*each)]
               for name, each in runs.items()}
    return {"name": row.name, "title": row.title, "unit": row.unit, "columns": row.columns, "runs": runs,
            "medians": medians, "failed": failed, "verdicts": bars.judge(row.name, medians)}


def matches(name, patterns):
    """A shell's patterns, of which a part of the name is enough, with commas between."""
    return any(fnmatch.fnmatchcase(name, f"*{pattern}*") for pattern in patterns.split(","))


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--only", default="*", help="a part of the names of rows, or several: pair,jq")
    parser.add_argument("--runs", type=int, default=0, help="turns (each row's own number)")
    parser.add_argument("--peers", default="*", help="which, native and mallograph apart")
    parser.add_argument("--json", type=pathlib.Path, help="the figures (BUILD/bench.json)")
    return parser.parse_args()


def heading(result):
    where = result["machine"]
    yield (f"{where['cpu']}, {where['cores']} cores, Linux {where['kernel']}, {where['libc']},"
           f" load {where['load']:.1f}")
    yield from result["versions"].values()
    for name, reason in result["missing"].items():
        yield f"without {name}: {reason}"


def main():
    given = options()
    chosen = [row for row in rows.ROWS if matches(row.name, given.only)]
    if not chosen:
        sys.exit(f"no row is called {given.only}: {', '.join(row.name for row in rows.ROWS)}")
    kinds = dict.fromkeys(kind for row in chosen for kind in row.kinds)
    here, missing = peers.find(given.build, [
        kind for kind in kinds if kind in peers.ALWAYS or matches(kind.name, given.peers)])
    result = {"format": "mallograph-bench", "version": 1, "machine": machine(),
              "versions": versions(given.build), "missing": missing, "rows": []}
    print("\n".join([*heading(result), "", table.head()]), flush=True)
    with tempfile.TemporaryDirectory(prefix="mallograph-bench.") as directory:
        bench = Bench(given.build, pathlib.Path(directory))
        # From the second turn on names are known, as to who records a program again.
        os.environ["XDG_CACHE_HOME"] = str(bench.directory / "cache")
        for row in chosen:
            its = [peer for peer in here if type(peer) in row.kinds]
            done = measure(row, bench, its, given.runs or row.turns)
            result["rows"].append(done)
            print("\n".join(table.lines(done)), flush=True)
    names = [peer.name for peer in here if type(peer) not in run.HEAPTRACK]
    if names:
        print("\n".join(table.others(result["rows"], names)))
    result["machine"]["load_after"] = os.getloadavg()[0]
    path = given.json or given.build / "bench.json"
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
