"""Rows of what comes after the recording: the profile, its size, and its reports."""

import sqlite3

import peers
from programs import found
from run import HEAPTRACK, Failed, command_run, execute

SITES, BLOCKS = 100_000, 1_000_000


class Start:
    """A program that takes no time, end to end."""

    unit, columns = "ms", ("ms",)
    turns, once_only = 11, ()
    kinds = (*HEAPTRACK, peers.HeaptrackSymbols)

    def __init__(self, name, *arguments):
        self.name, self.arguments = name, arguments
        self.title = " ".join((name, *arguments))

    def once(self, bench, peer):
        return (execute(peer, [found(self.name), *self.arguments]).seconds * 1e3,)


class Own:
    """mallograph alone, in absolute figures."""

    unit, columns = "s", ("s",)
    turns, once_only = 5, ()
    kinds = (peers.Mallograph,)


def record(bench, path, *command):
    """The Done of a recorded command."""
    return command_run([bench.build / "mallograph", "-q", "--blocks", "all", "-o", path, "--",
                        *command])


def large_write(bench):
    """(the profile of 100,000 sites, 512 snapshots, a million blocks; seconds it took)."""
    path = bench.directory / "large.mgp"
    path.unlink(missing_ok=True)
    done = command_run([bench.build / "bench/large", path])
    return path, float(done.output)


class Write(Own):
    """The store alone, at every limit of a profile."""

    name, title = "profile-write", "100,000 sites stored"

    def once(self, bench, peer):
        return (large_write(bench)[1],)


class End(Own):
    """From the end of a program with as many sites and blocks to the end of the command."""

    name, title = "profile-end", "100,000 sites, end to end"
    turns = 3

    def once(self, bench, peer):
        path = bench.directory / "end.mgp"
        done = record(bench, path, bench.build / "bench/sites", SITES, BLOCKS, BLOCKS, 2)
        profile = sqlite3.connect(path)
        sites, blocks = (profile.execute(f"select count(*) from {table}").fetchone()[0]
                         for table in ("site", "block"))
        profile.close()
        if sites < SITES or blocks < BLOCKS:
            raise Failed(f"the profile has {sites} sites and {blocks} blocks")
        return (done.end - float(done.output),)


class Report(Own):
    """A view of the stored profile: seconds, megabytes."""

    columns = ("s", "MB resident")

    def __init__(self, name, *command):
        self.name, self.title = f"profile-{name}", " ".join(command)
        self.command = command

    def once(self, bench, peer):
        path = bench.directory / "large.mgp"
        if not path.exists():
            large_write(bench)
        done = command_run([bench.build / "mallograph", *self.command, path], keep=False)
        return done.seconds, done.megabytes


class Growth(Own):
    """Profiles of 10^5 and 10^7 allocations at the same sites: how much larger, %.

    Both runs take the same time. A longer one has more snapshots and later times, whatever
    it allocates: that is the row beside it, without a limit.
    """

    name, title = "profile-growth", "10^7 for 10^5, 1,000 sites"
    unit, columns = "%", ("%", "bytes after 10^5", "bytes after 10^7")
    turns, seconds = 1, 4

    def command(self, bench, allocations):
        return [bench.build / "bench/sites", 1000, allocations, 1000, self.seconds]

    def size(self, bench, allocations):
        """Bytes, series and snapshots apart."""
        path = bench.directory / "growth.mgp"
        record(bench, path, *self.command(bench, allocations))
        database = sqlite3.connect(path, isolation_level=None)
        for command in ("delete from series", "delete from snap", "vacuum"):
            database.execute(command)
        database.close()
        return path.stat().st_size

    def once(self, bench, peer):
        few, many = (self.size(bench, allocations) for allocations in (10**5, 10**7))
        return 100 * (many / few - 1), few, many


class GrowthOfTime(Growth):
    """The same as fast as they go."""

    name, title = "profile-growth-time", "10^7 for 10^5, a longer run"
    seconds = 0


class GrowthJq(Growth):
    """jq allocates five times for each number."""

    name, title = "profile-growth-real", "10^7 for 10^5, jq"

    def command(self, bench, allocations):
        numbers = f"range({allocations // 5})"
        return [found("jq"), "-n", f"reduce {numbers} as $i (0; . + ($i | tostring | length))"]


ROWS = (
    Start("true"),
    Start("ls", "-l", "/"),
    Write(),
    End(),
    Report("peak", "report"),
    Report("live", "report", "--live"),
    Report("tree", "report", "--tree"),
    Report("tree-up", "report", "--tree=bottom-up"),
    Report("json", "report", "--json", "--sites", "1000"),
    Report("hist", "hist"),
    Report("blocks", "blocks"),
    Report("info", "info"),
    Growth(),
    GrowthOfTime(),
    GrowthJq(),
)
