"""What the suites with an oracle share: a program run recorded, what it says of itself, what the
profile says of it. A program's own word is its counts in lines (tests/programs/tally.h)."""

import bisect
import functools
import json
import os
import pathlib
import subprocess
import time

import pytest

TOTALS = (
    "allocations",
    "frees",
    "failed",
    "allocated_bytes",
    "temporary",
    "live_blocks",
    "live_bytes",
)
PEAK = ("peak_blocks", "peak_bytes")
SITE_TOTALS = ("allocations", "frees", "allocated_bytes", "temporary", "live_blocks", "live_bytes")


class Said:
    """What one process said: counts by key, rows of numbers by (word, name), other words."""

    def __init__(self, pid):
        self.pid = pid
        self.counts = {}
        self.words = {}
        self.lines = []

    def add(self, key, *rest):
        self.lines.append((key, *rest))
        if len(rest) == 1 and rest[0].lstrip("-").isdigit():
            self.counts[key] = int(rest[0])
        elif len(rest) == 1:
            self.words[key] = rest[0]

    def __getitem__(self, key):
        return self.counts[key]

    def only(self, keys):
        return {key: self.counts[key] for key in keys}

    def rows(self, key):
        """The lines `key NAME numbers…`: [(name, [numbers])]."""
        return [(line[1], [int(n) for n in line[2:]]) for line in self.lines if line[0] == key]


def read_said(path):
    processes = []
    if not path.exists():
        return processes
    for line in path.read_text().splitlines():
        key, *rest = line.split()
        if key == "process":
            processes.append(Said(int(rest[0])))
        elif not processes:
            processes.append(Said(0))
        if key != "process":
            processes[-1].add(key, *rest)
    return processes


@functools.cache
def symbols_of(path):
    """(sorted addresses, [(end, name)]) of an ELF file's functions."""
    found = {}
    for option in ("-n", "-D"):
        answer = subprocess.run(
            ["nm", option, "-S", "--defined-only", path],
            capture_output=True,
            text=True,
            check=False,
        )
        for line in answer.stdout.splitlines():
            field = line.split()
            if len(field) == 4 and field[2] in "tTwWiu":
                start = int(field[0], 16)
                found[start] = (start + int(field[1], 16), field[3].partition("@")[0])
    starts = sorted(found)
    return starts, [found[start] for start in starts]


def function_at(path, address):
    """The function whose code the address is in, or None."""
    starts, ends = symbols_of(path)
    at = bisect.bisect_right(starts, address) - 1
    if at < 0 or address >= ends[at][0]:
        return None
    return ends[at][1]


def frame_function(frame):
    """A frame by the symbols of its module, not by the tool's. A frame's offset is where its call
    returns to; one byte before that is in the call."""
    if frame["module"] is None or not os.path.exists(frame["module"]):
        return None
    return function_at(frame["module"], frame["offset"] - 1)


def stack_functions(site):
    return [frame_function(frame) for frame in site["stack"]]


class Report:
    """report --json of a profile."""

    def __init__(self, text):
        self.json = json.loads(text)
        assert self.json["format"] == "mallograph-report"
        assert self.json["version"] == 1
        self.processes = self.json["processes"]
        self.sites = self.json["sites"]

    @property
    def root(self):
        return self.processes[0]

    def of_pid(self, pid):
        """The only process of this pid."""
        found = [p for p in self.processes if p["pid"] == pid]
        assert len(found) == 1, f"{len(found)} processes with pid {pid}"
        return found[0]

    def sites_of(self, process):
        return [s for s in self.sites if s["process"] == process["id"]]

    def by_function(self, process, module=None):
        """Sums of the sites whose innermost frame is in the program (or the module) by the name
        of that frame's function: {name: {count: sum}}, `sizes` {low: count} among them."""
        module = module or process["exe"]
        sums = {}
        for site in self.sites_of(process):
            if not site["stack"] or site["stack"][0]["module"] != str(module):
                continue
            into = sums.setdefault(stack_functions(site)[0], {"sizes": {}})
            for key in (*SITE_TOTALS, *PEAK):
                into[key] = into.get(key, 0) + site[key]
            for low, _, count in site["sizes"]:
                into["sizes"][low] = into["sizes"].get(low, 0) + count
        return sums

    def of_program(self, process):
        """The sum of by_function: what the program did without its libraries."""
        sums = self.by_function(process)
        return {key: sum(one[key] for one in sums.values()) for key in (*SITE_TOTALS, *PEAK)}

    @staticmethod
    def losses(process):
        return {loss["kind"]: loss["count"] for loss in process["losses"]}


class Recording:
    """A finished run: what came out of it and what is known about it."""

    def __init__(self, tool, ledger, said_path, result):
        self.tool = tool
        self.ledger = ledger
        self.said_path = said_path
        self.returncode = result.returncode
        self.stdout = result.stdout
        self.stderr = result.stderr

    @functools.cached_property
    def all_said(self):
        return read_said(self.said_path)

    @property
    def said(self):
        assert len(self.all_said) == 1, f"{len(self.all_said)} processes said something"
        return self.all_said[0]

    @functools.cached_property
    def report(self):
        return report(self.tool, self.ledger)

    @functools.cached_property
    def root(self):
        """The root's totals; its sites are not read."""
        return report(self.tool, self.ledger, sites=0).root


def report(tool, path, sites="all"):
    """What the tool says of a profile. Thousands of deep sites take Python seconds to read."""
    answer = subprocess.run(
        [tool, "report", path, "--json", "--sites", str(sites)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return Report(answer.stdout)


def wait_for(condition, seconds=20):
    """Until the condition holds; fails loudly when it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def session_of(pid):
    """The session file of the running tool of this pid."""
    opened = {os.stat(link).st_ino for link in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    folder = pathlib.Path(f"/dev/shm/mallograph-{os.getuid()}")
    if "XDG_RUNTIME_DIR" in os.environ:
        folder = pathlib.Path(os.environ["XDG_RUNTIME_DIR"]) / "mallograph"
    (found,) = [path for path in folder.glob("*.mgl") if path.stat().st_ino in opened]
    return found


class Recorder:
    """Runs test programs recorded, natively, and with the agent preloaded by hand."""

    def __init__(self, build, folder, sanitized):
        self.build = pathlib.Path(build)
        self.tool = self.build / "mallograph"
        self.folder = folder
        self.sanitized = sanitized
        self.count = 0

    def program(self, name):
        """Of tests/programs, or any that is installed."""
        path = self.build / "tests" / "programs" / name
        return path if path.exists() else name

    def library(self, name):
        return self.build / "tests" / "programs" / f"lib{name}.so"

    def new_paths(self):
        """(ledger, said) for one more run."""
        self.count += 1
        return self.folder / f"{self.count}.mgl", self.folder / f"{self.count}.said"

    def command(self, ledger, said, name, *args, options=(), before=()):
        tool = [self.tool, "-q", "-o", ledger, *options, "--"]
        return [str(a) for a in (*tool, *before, self.program(name), said, *args)]

    def run(
        self, name, *args, options=(), before=(), env=None, returncode=0, timeout=120, **more
    ):
        """A program of tests/programs, recorded. args follow the file it says its counts to,
        options are the tool's, before is a wrapper's command."""
        if self.sanitized and "LD_PRELOAD" in (env or {}):
            pytest.skip("a sanitizer must come first")
        ledger, said = self.new_paths()
        result = subprocess.run(
            self.command(ledger, said, name, *args, options=options, before=before),
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **more,
        )
        assert result.returncode == returncode, result.stderr
        return Recording(self.tool, ledger, said, result)

    def native(self, name, *args, env=None, returncode=0):
        """The same without the tool: what it says."""
        said = self.new_paths()[1]
        result = subprocess.run(
            [str(a) for a in (self.program(name), said, *args)],
            env={**os.environ, **(env or {})},
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == returncode, result.stderr
        return read_said(said)

    def start(self, name, *args, options=(), env=None, **more):
        """A run that goes on: (Popen, ledger, said)."""
        ledger, said = self.new_paths()
        process = subprocess.Popen(
            self.command(ledger, said, name, *args, options=options),
            env={**os.environ, **(env or {})},
            **more,
        )
        return process, ledger, said

    def ready(self, said, times=1):
        """Until the program has said `ready` so many times."""
        wait_for(lambda: said.exists() and said.read_text().count("ready 1\n") >= times)


def lost(process):
    """What is not in a process's counts. Of more live blocks than 200,000 not each is listed."""
    return [loss for loss in process["losses"] if loss["kind"] != "blocks_not_listed"]


def totals(process):
    return {key: process[key] for key in TOTALS}


def peak(process):
    return {key: process[key] for key in PEAK}
