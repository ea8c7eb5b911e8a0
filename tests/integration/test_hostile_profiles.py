"""Profiles made to do harm, through every command that reads one: it ends by itself, in time and
memory that are bounded, with a status of the tool's, and says why where it refuses."""

import os
import random
import shutil
import sqlite3
import subprocess
import time

import pytest

SECONDS, MIB = 10, 512  # of the processor; resident
FEW, MANY = 20_000, 200_000

COUNT = "WITH RECURSIVE a(b) AS (SELECT 1 UNION ALL SELECT b + 1 FROM a WHERE b < {many}) "
ENDLESS = "WITH RECURSIVE a(b) AS (SELECT 1 UNION ALL SELECT b + 1 FROM a)"


def more(table, **columns):
    """A row of a table over and over, but for these columns; a.b counts from 1."""

    def sql(profile, many):
        names = [row[1] for row in profile.execute(f"PRAGMA table_info({table})")]
        values = ", ".join(str(columns.get(name, f"t.{name}")) for name in names)
        profile.execute(COUNT.format(many=many) + f"INSERT OR IGNORE INTO {table} SELECT {values} FROM "
                        f"(SELECT * FROM {table} LIMIT 1) t, a")

    return sql


def script(sql):
    return lambda profile, many: profile.executescript(
        "PRAGMA writable_schema = 1;" + sql.replace("{many}", str(many)))


def view_for(table, sql):
    return script(f"ALTER TABLE {table} RENAME TO s0; CREATE VIEW {table} AS {sql}")


CASES = {
    "processes, each of the one before": [more("process", id="b + 1000000", parent="b + 999999")],
    "processes with a block each": [
        more("process", id="b + 1000000"),
        script(COUNT + "INSERT INTO block SELECT b + 1000000, 1, 1, 9, 9, 9, 1 FROM a")],
    "modules": [more("module", id="b + 100000")],
    "mappings of one module": [more("mapping")],
    "threads": [more("thread", id="b + 100000")],
    "snapshots": [more("snap", id="b + 100000", time="b")],
    "losses": [script(COUNT + "INSERT OR IGNORE INTO loss SELECT 1, 'k' || b, b, 'd' FROM a")],
    "calls inlined into each other": [
        script(COUNT + "INSERT OR IGNORE INTO line SELECT 1, b + 100, 1, 1, 1, 1 FROM a")],
    "sizes of one site": [
        script(COUNT + "INSERT OR IGNORE INTO site_size SELECT 1, b, 1, 1, 1 FROM a")],
    "sites that are alike, each a frame deeper": [
        script(COUNT + "INSERT INTO stack SELECT b + 1000000, CASE b % 20000 WHEN 1 THEN 0 "
               "ELSE b + 999999 END, 1 FROM a"),
        more("site", id="b + 1000000", stack="b % 20000 + 1000000")],
    "a stack of more frames than there may be": [
        script("INSERT INTO stack SELECT 1000000, 0, 1; " + COUNT.replace("{many}", "70000") +
               "INSERT INTO stack SELECT b + 1000000, b + 999999, 1 FROM a")],
    "a text of 100 MB": [script("UPDATE string SET s = zeroblob(100000000) WHERE id = 2")],
    "views that are endless": [
        script(f"DROP VIEW v_site; CREATE VIEW v_site AS {ENDLESS} SELECT * FROM a")],
    "a view of huge values": [
        script("DROP VIEW v_frame; CREATE VIEW v_frame AS SELECT zeroblob(1000000000) z")],
    "an endless view for a table": [view_for("site", f"{ENDLESS} SELECT s0.* FROM s0, a")],
    "a table that makes its values": [
        script("ALTER TABLE module ADD COLUMN x GENERATED ALWAYS AS (zeroblob(1000000000)) VIRTUAL")],
    "a check that takes for ever": [
        script("UPDATE sqlite_schema SET sql = replace(sql, 'exe INT', 'exe INT CHECK (randomblob"
               "(1000000000))') WHERE name = 'process'")],
    "triggers": [script("CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM site; END")],
    "tables in each other's pages": [
        script("UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE "
               "name = 'stack') WHERE name = 'site'")],
    "a table past the end": [
        script("UPDATE sqlite_schema SET rootpage = 2147483647 WHERE name = 'site'")],
    "a table of a thousand columns": [
        script("UPDATE sqlite_schema SET sql = 'CREATE TABLE site(id' || replace(hex(zeroblob(1000)),"
               " '00', ', c') || ')' WHERE name = 'site'")],
    "names that a terminal obeys": [
        script("CREATE TABLE \"x\x1b[31m\" (\"\x1b]0;y\x07\"); UPDATE string SET s = char(27) || s")],
}  # fmt: skip


def commands(draw, profile, other, out):
    ways = ["stack", "thread", "module", "function", "process", "program"]
    views = ["v_site", "v_frame", "v_block", "v_timeline", "string", "process"]
    return [
        ["report"], ["report", "--summary"], ["report", "--tree", "--bytes"],
        ["report", "--tree=bottom-up"], ["report", "--json"],
        ["report", "--by", draw.choice(["process", "program"]), "--live"],
        ["report", "--by", draw.choice(["rank", "file", "host"])],
        ["report", "--process", "id:1", "--alloc-fn", "*"], ["blocks"], ["hist"], ["info"],
        ["hist", "--by", draw.choice(ways), "--sites", "all"], ["hist", "--lquantize", "0:1M:100"],
        ["query", "--json", f"SELECT * FROM {draw.choice(views)} LIMIT 100"],
        ["query", f"SELECT * FROM {draw.choice(views)} LIMIT 100"],
        ["symbolize", "--list-missing"], ["symbolize", "-o", out], ["merge", "-o", out, other],
        ["doctor"],
    ]  # fmt: skip


class Tool:
    def __init__(self, mallograph, place, sanitized):
        self.mallograph, self.place = mallograph, place
        self.factor = 4 if sanitized else 1

    def run(self, *words):
        """(status, what it said): whoever takes more than the limits fails."""
        with (self.place / "out").open("wb") as out, (self.place / "err").open("w+b") as said:
            process = subprocess.Popen([self.mallograph, *words], stdout=out, stderr=said,
                                       stdin=subprocess.DEVNULL)
            end = time.monotonic() + 60 * self.factor
            while True:
                pid, status, used = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > end:
                    process.kill()
                    process.wait()
                    pytest.fail(f"{words} hangs")
                time.sleep(0.001)
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            error = said.read()
        assert used.ru_utime + used.ru_stime < SECONDS * self.factor, words
        assert used.ru_maxrss < MIB * 1024 * self.factor, words
        assert process.returncode in (0, 1, 2, 125), (words, process.returncode, error)
        assert b"runtime error" not in error and b"Sanitizer" not in error, (words, error)
        assert process.returncode == 0 or error, words
        assert all(byte >= 32 or byte == 10 for byte in error), (words, error)
        return process.returncode, error


@pytest.fixture(scope="module")
def profiles(mallograph, tmp_path_factory):
    """One of a program, one of a tree, one of both."""
    place = tmp_path_factory.mktemp("profiles")
    names = ["one.mgp", "tree.mgp", "both.mgp"]
    for name, words in zip(names, (["sqlite3", ":memory:", "SELECT 1"],
                                   ["sh", "-c", "ls / | sort; jq . /dev/null"])):
        subprocess.run([mallograph, "-q", "-o", place / name, *words], check=True,
                       stdout=subprocess.DEVNULL)
    subprocess.run([mallograph, "merge", "-o", place / "both.mgp", place / "one.mgp", place / "tree.mgp"],
                   check=True, stderr=subprocess.DEVNULL)
    return [place / name for name in names]


@pytest.fixture
def tool(mallograph, tmp_path, sanitized):
    return Tool(mallograph, tmp_path, sanitized)


def read_all(tool, draw, profile, other):
    out = tool.place / "made.mgp"
    is_read = tool.run("report", profile)[0] == 0
    for words in commands(draw, profile, other, out):
        tool.run(*words, profile)
        if out.exists():
            # Of what it can read the tool makes what it can read.
            assert tool.run("report", out)[0] == 0 or not is_read, words
            out.unlink()


@pytest.mark.parametrize("many", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_made_by_hand(tool, profiles, tmp_path, name, many):
    path = tmp_path / "hostile.mgp"
    shutil.copy(profiles[0], path)
    profile = sqlite3.connect(path)
    for change in CASES[name]:
        change(profile, many)
    profile.commit()
    profile.close()
    read_all(tool, random.Random(1), path, profiles[1])


# --- at random ---------------------------------------------------------------------------

VALUES = [
    0, 1, -1, 2, 255, 70000, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, -(2**63), None, "", "x", "root",
    b"", b"\0\xff", 1.5, float("inf"), float("nan"), 1e308, "a" * 70000, "\x1b[31m\n\t\x7f", "123", "9" * 400,
]  # fmt: skip


def change_values(profile, draw):
    tables = [row[0] for row in profile.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    if draw.random() < 0.3:  # without keys
        table = draw.choice(tables)
        profile.executescript(
            f"PRAGMA legacy_alter_table = 1; CREATE TABLE t0 AS SELECT * FROM {table}; DROP TABLE "
            f"{table}; ALTER TABLE t0 RENAME TO {table}; "
            f"INSERT INTO {table} SELECT * FROM {table} LIMIT {draw.randrange(3)}")
    for _ in range(draw.choice([1, 1, 2, 5, 20])):
        table = draw.choice(tables)
        column = draw.choice([row[1] for row in profile.execute(f"PRAGMA table_info({table})")])
        which = draw.choice(["", "LIMIT 1", f"LIMIT 1 OFFSET {draw.randrange(20)}"])
        key = profile.execute(f"SELECT name FROM pragma_table_info('{table}') WHERE pk = 1").fetchone()
        where = f"WHERE {key[0]} IN (SELECT {key[0]} FROM {table} {which})" if key and which else ""
        try:
            profile.execute(f"UPDATE OR IGNORE {table} SET {column} = ? {where}", [draw.choice(VALUES)])
        except sqlite3.Error:  # what the schema does not let be
            pass


def change_bytes(path, draw):
    content = bytearray(path.read_bytes())
    how = draw.choice(["header", "bytes", "pages", "cut"])
    for _ in range(draw.choice([1, 2, 4, 100])):
        if how == "header":
            content[draw.randrange(16, 100)] = draw.choice([0, 1, 2, 3, 127, 128, 255])
        elif how == "bytes":
            content[draw.randrange(100, len(content))] = draw.randrange(256)
        elif how == "pages":
            to, source = (4096 * draw.randrange(1, len(content) // 4096) for _ in range(2))
            content[to : to + 4096] = content[source : source + 4096]
    if how == "cut":
        del content[draw.randrange(100, len(content)) :]
    path.write_bytes(content)


def try_seed(tool, profiles, seed):
    draw = random.Random(seed)
    path = tool.place / "hostile.mgp"
    shutil.copy(draw.choice(profiles), path)
    if draw.random() < 0.6:
        profile = sqlite3.connect(path)
        change_values(profile, draw)
        profile.commit()
        profile.close()
    else:
        change_bytes(path, draw)
    read_all(tool, draw, path, profiles[0])


def test_some(tool, profiles):
    for seed in range(6):
        try_seed(tool, profiles, seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many(tool, profiles, part):
    for seed in range(100 * part, 100 * part + 100):
        try_seed(tool, profiles, seed)
