"""mallograph beside its peers: compare.py BUILD [--only PATTERN] [--runs N] [--json FILE]

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

import bars
import peers
import rows
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


def measure(row, build, kinds, turns):
    """One row, as JSON has it."""
    runs = {peer.name: [] for peer in kinds}
    failed = {}
    for turn in range(turns):
        for peer in kinds:
            if peer.name in failed:
                continue
            progress(f"{row.name} {turn + 1}/{turns} {peer.name}")
            try:
                runs[peer.name].append(row.once(build, peer))
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                failed[peer.name] = str(error)
    progress("")
    runs = {name: list(each) for name, each in runs.items() if each and name not in failed}
    medians = {name: [statistics.median(column) for column in zip(*each)]
               for name, each in runs.items()}
    return {"name": row.name, "title": row.title, "unit": row.unit, "runs": runs,
            "medians": medians, "failed": failed, "verdicts": bars.judge(row.name, medians)}


def wanted(pattern):
    patterns = pattern.split(",")
    return [row for row in rows.ROWS
            if any(fnmatch.fnmatch(row.name, part) or part in row.name for part in patterns)]


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--only", default="*", help="names of rows, * and , as a shell has them")
    parser.add_argument("--runs", type=int, default=0, help="turns (each row's own number)")
    parser.add_argument("--json", type=pathlib.Path, help="the figures (BUILD/bench.json)")
    return parser.parse_args()


def main():
    given = options()
    result = {"format": "mallograph-bench", "version": 1, "machine": machine(),
              "versions": versions(given.build), "rows": []}
    chosen = wanted(given.only)
    if not chosen:
        sys.exit(f"no row is called {given.only}: {', '.join(row.name for row in rows.ROWS)}")
    kinds = dict.fromkeys(kind for row in chosen for kind in row.kinds)
    here, result["missing"] = peers.find(given.build, kinds)
    where = result["machine"]
    print(f"{where['cpu']}, {where['cores']} cores, Linux {where['kernel']}, {where['libc']},"
          f" load {where['load']:.1f}")
    print("\n".join(result["versions"].values()))
    for name, reason in result["missing"].items():
        print(f"without {name}: {reason}")
    print(f"\n{table.head()}")
    for row in chosen:
        kinds = [peer for peer in here if type(peer) in row.kinds]
        done = measure(row, given.build, kinds, given.runs or row.turns)
        result["rows"].append(done)
        print("\n".join(table.lines(done)), flush=True)
    names = [peer.name for peer in here if type(peer) not in rows.HEAPTRACK]
    if names:
        print("\n" + "\n".join(table.others(result["rows"], names)))
    result["machine"]["load_after"] = os.getloadavg()[0]
    path = given.json or given.build / "bench.json"
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
