"""Many profiles into one: nothing lost, nothing counted twice, nothing believed."""

import json
import os
import re
import shutil
import sqlite3
import statistics

import pytest

PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
void *kept[20000];
__attribute__((noinline)) void *grow(size_t size) { return memset(malloc(size), 1, size); }
__attribute__((noinline)) void *common(size_t size) { return memset(malloc(size), 1, size); }
int main(int argc, char **argv)
{
	int rank = atoi(argv[1]);
	for (int i = 0; i < 100 * (rank + 1); i++)
		kept[i] = grow(1000);
	free(common(5000));
	for (int i = 0; i < 10 * rank; i++)
		free(kept[i]);
	if (argc > 2 && fork() == 0)
		_exit(common(64) == NULL);
	wait(NULL);
	return 0;
}
"""
ADDITIVE = {
    "process": "count(*), sum(allocs), sum(frees), sum(alloc_bytes), sum(live_blocks), "
               "sum(live_bytes), sum(peak_bytes), sum(temporary), sum(unknown_frees)",
    "api": "count(*), sum(calls), sum(bytes)",
    "thread": "count(*), sum(allocs), sum(frees)",
    "loss": "count(*), sum(count)",
    "mapping": "count(*), sum(start), sum(stop - start)",
    "site": "count(*), sum(allocs), sum(frees), sum(alloc_bytes), sum(peak_bytes)",
    "site_size": "count(*), sum(class), sum(allocs), sum(bytes)",
    "thread_size": "count(*), sum(allocs), sum(bytes)",
    "site_thread": "count(*), sum(allocs)",
    "series": "count(*), sum(live_bytes)",
    "cohort": "count(*), sum(blocks), sum(bytes)",
    "block": "count(*), sum(size), sum(address)",
}


@pytest.fixture(scope="session")
def program(cc):
    return cc("solver", PROGRAM, "-O1", "-g")


@pytest.fixture
def ranks(run, program, tmp_path):
    """Four profiles, in no order of their ranks."""
    for rank in (2, 0, 3, 1):
        words = ["fork"] if rank == 2 else []
        assert run("-q", "-o", f"r{rank}.mgp", program, str(rank), *words,
                   env={"OMPI_COMM_WORLD_RANK": str(rank)}).returncode == 0
    return [tmp_path / f"r{rank}.mgp" for rank in range(4)]


def ask(path, question):
    db = sqlite3.connect(path)
    try:
        return db.execute(question).fetchall()
    finally:
        db.close()


def change(path, *statements):
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def sites(path):
    """Of every process its sites, by their whole stack as text."""
    return sorted(ask(path, "SELECT p.pid, v.stack, s.api, s.allocs, s.alloc_bytes, s.peak_bytes, "
                            "s.live_blocks, t.title_function, t.title_line FROM site s "
                            "JOIN process p ON p.id=s.process JOIN v_site_stack v ON v.site=s.id "
                            "JOIN v_site t ON t.id=s.id"), key=repr)


def test_nothing_is_lost_or_counted_twice(run, ranks, tmp_path):
    before = [path.read_bytes() for path in ranks]
    result = run("merge", "-o", "all.mgp", *ranks, text=True)
    assert result.returncode == 0 and "merged 4 profiles with 5 processes" in result.stderr
    assert [path.read_bytes() for path in ranks] == before
    merged = tmp_path / "all.mgp"
    for table, sums in ADDITIVE.items():
        parts = [ask(path, f"SELECT {sums} FROM {table}")[0] for path in ranks]
        assert ask(merged, f"SELECT {sums} FROM {table}")[0] == tuple(
            None if all(v is None for v in column) else sum(v or 0 for v in column)
            for column in zip(*parts)), table
    assert sites(merged) == sorted((s for path in ranks for s in sites(path)), key=repr)
    assert ask(merged, "PRAGMA integrity_check") == [("ok",)]
    assert ask(merged, "SELECT value FROM meta WHERE key='finished'") == [(1,)]
    files = ask(merged, "SELECT f.s, s.rank, s.finished FROM source s JOIN string f ON f.id=s.file")
    assert files == [(str(path), rank, 1) for rank, path in enumerate(ranks)]
    assert ask(merged, "SELECT count(DISTINCT source), count(*) FROM process") == [(4, 5)]


def test_what_is_shared(run, ranks, tmp_path):
    """The same profile again adds its rows, and no module, place, stack or line."""
    shutil.copy(ranks[2], tmp_path / "again.mgp")
    assert run("-q", "merge", "-o", "x.mgp", ranks[2]).returncode != 0
    assert run("merge", "-o", "one.mgp", ranks[2]).returncode == 0
    assert run("merge", "-o", "two.mgp", ranks[2], "again.mgp").returncode == 0
    for table in ("module", "loc", "stack", "line"):
        count = f"SELECT count(*) FROM {table}"
        known = ask(ranks[2], count + (" WHERE build_id IS NOT NULL" if table == "module" else ""))
        one = ask(tmp_path / "one.mgp", count)
        assert one[0][0] >= known[0][0] > 0
        if not ask(ranks[2], "SELECT 1 FROM module WHERE build_id IS NULL"):
            assert ask(tmp_path / "two.mgp", count) == one
    assert ask(tmp_path / "two.mgp", "SELECT count(*) FROM site")[0][0] == \
        2 * ask(ranks[2], "SELECT count(*) FROM site")[0][0]


def test_times_are_common(run, ranks, tmp_path):
    assert run("merge", "-o", "all.mgp", *ranks).returncode == 0
    merged = tmp_path / "all.mgp"
    starts = [ask(p, "SELECT value FROM meta WHERE key='start_unix_ns'")[0][0] for p in ranks]
    assert ask(merged, "SELECT value FROM meta WHERE key='start_unix_ns'") == [(min(starts),)]
    wanted = sorted((pid, start + when, start + peak) for path, start in zip(ranks, starts)
                    for pid, when, peak in ask(path, "SELECT pid, start, peak_time FROM process"))
    assert wanted == sorted((pid, min(starts) + when, min(starts) + peak) for pid, when, peak in
                            ask(merged, "SELECT pid, start, peak_time FROM process"))


def test_merged_again(run, ranks, tmp_path):
    """In two steps it is the same, and each process still knows where it is from."""
    assert run("merge", "-o", "a.mgp", *ranks[:2]).returncode == 0
    assert run("merge", "-o", "b.mgp", "a.mgp", *ranks[2:]).returncode == 0
    assert run("merge", "-o", "all.mgp", *ranks).returncode == 0
    whole = "SELECT f.s, s.rank FROM process p JOIN source s ON s.id=p.source " \
            "JOIN string f ON f.id=s.file ORDER BY p.pid"
    assert ask(tmp_path / "b.mgp", whole) == ask(tmp_path / "all.mgp", whole)
    assert sites(tmp_path / "b.mgp") == sites(tmp_path / "all.mgp")


def test_ranks_are_compared(run, ranks):
    assert run("merge", "-o", "all.mgp", *ranks).returncode == 0
    parts = [json.loads(run("report", "--json", "--sites", "all", path).stdout) for path in ranks]
    text = run("report", "--by", "rank", "--allocations", "all.mgp", text=True).stdout
    assert max(map(len, text.splitlines())) <= 80
    whole = sorted(sum(p["allocations"] for p in part["processes"]) for part in parts)
    line = next(line for line in text.splitlines() if line.startswith(" allocations"))
    assert line.split()[1:] == [f"{whole[0]:,}", f"{int(statistics.median(whole)):,}",
                                f"{whole[3]:,}", "rank", "3"]
    line = next(line for line in text.splitlines() if line.endswith(" grow < main"))
    assert line.split() == ["100", "250", "400", "rank", "3", "4", "grow", "<", "main"]
    line = next(line for line in text.splitlines() if line.endswith(" common < main"))
    assert line.split()[:5] == ["1", "1", "2", "rank", "2"]
    files = run("report", "--by", "file", "all.mgp", text=True).stdout
    assert "r3.mgp" in files and "BY file (4)" in files
    assert "BY host (1)" in run("report", "--by", "host", "all.mgp", text=True).stdout
    report = json.loads(run("report", "--json", "all.mgp").stdout)
    assert [s["rank"] for s in report["sources"]] == [0, 1, 2, 3]
    assert {p["source"] for p in report["processes"]} == {1, 2, 3, 4}
    summary = run("report", "--summary", "all.mgp", text=True).stdout
    assert "merged from 4 profiles" in summary and "of 1 program, complete" in summary
    assert "MERGED     from " in run("info", "all.mgp", text=True).stdout
    refused = run("report", "--by", "rank", ranks[0], text=True)
    assert refused.returncode == 2 and "not a merged one" in refused.stderr


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_who_knows_a_module_best_names_it(run, program, tmp_path, order):
    paths = [tmp_path / "bare.mgp", tmp_path / "full.mgp"]
    for path, words in zip(paths, (["--no-symbols"], [])):
        assert run("-q", *words, "-o", path, program, "1").returncode == 0
    assert run("merge", "-o", "all.mgp", *(paths[i] for i in order)).returncode == 0
    titles = ask(tmp_path / "all.mgp", "SELECT DISTINCT title_function, title_line FROM v_site "
                                       "WHERE allocs=200")
    assert titles == ask(paths[1], "SELECT DISTINCT title_function, title_line FROM v_site "
                                   "WHERE allocs=200") and titles[0][0] == "grow"


def test_refusals(run, ranks, tmp_path):
    names = os.listdir(tmp_path) + ["link.mgp", "hard.mgp", "text.mgp", "cut.mgp", "x.mgl"]
    for name in names[-3:]:
        (tmp_path / name).write_text("no profile")
    os.symlink(ranks[1], tmp_path / "link.mgp")
    os.link(ranks[0], tmp_path / "hard.mgp")
    (tmp_path / "cut.mgp").write_bytes(ranks[1].read_bytes()[:20000])
    assert run("-q", "-o", "x.mgl", "true").returncode == 0

    def refused(*words, code=125):
        result = run("merge", *words, text=True)
        assert result.returncode == code
        assert not (tmp_path / "x.mgp").exists() and len(os.listdir(tmp_path)) == len(names)
        return " ".join(result.stderr.split())

    assert "needs -o" in refused(*ranks, code=2)
    assert "profiles to merge" in refused("-o", "x.mgp", code=2)
    assert "one of those to merge" in refused("-o", ranks[1], *ranks)
    assert "one of those to merge" in refused("-o", ranks[1], "link.mgp", ranks[0])
    assert "named twice" in refused("-o", "x.mgp", ranks[0], ranks[1], "link.mgp")
    assert "named twice" in refused("-o", "x.mgp", ranks[0], "hard.mgp")
    assert "cannot open" in refused("-o", "x.mgp", ranks[0], "nowhere.mgp")
    assert "not a mallograph profile" in refused("-o", "x.mgp", ranks[0], "text.mgp")
    assert "cut short" in refused("-o", "x.mgp", ranks[0], "cut.mgp")
    assert "mallograph recover" in refused("-o", "x.mgp", "x.mgl")


def test_an_older_file_is_replaced_when_the_new_one_is_whole(run, ranks, tmp_path):
    (tmp_path / "all.mgp").write_text("old")
    (tmp_path / "cut.mgp").write_bytes(ranks[1].read_bytes()[:20000])
    assert run("merge", "-o", "all.mgp", ranks[0], "cut.mgp").returncode == 125
    assert (tmp_path / "all.mgp").read_text() == "old"
    names = set(os.listdir(tmp_path))
    assert run("merge", "-o", "all.mgp", ranks[0], ranks[1]).returncode == 0
    assert set(os.listdir(tmp_path)) == names
    assert ask(tmp_path / "all.mgp", "SELECT count(*) FROM source") == [(2,)]


def test_one_that_is_not_whole_is_said(run, ranks):
    change(ranks[1], "UPDATE meta SET value=0 WHERE key='finished'")
    result = run("merge", "-o", "all.mgp", *ranks, text=True)
    assert result.returncode == 0
    words = " ".join(result.stderr.split())
    assert "not whole: " in words and "r1.mgp was not written to its end" in words
    assert "NOT WHOLE" in run("report", "all.mgp", text=True).stdout


@pytest.mark.parametrize("statement", [
    "UPDATE site SET process=99", "UPDATE site SET stack=4000000", "UPDATE block SET site=77777",
    "INSERT INTO series VALUES(1,77777,1,1,1)", "UPDATE api SET process=2", "UPDATE stack SET loc=99999",
    "UPDATE stack SET parent=id-1 WHERE id>1; DELETE FROM stack WHERE id=2",
    "UPDATE loc SET module=777", "UPDATE mapping SET module=777", "UPDATE line SET loc=loc+100000",
    "UPDATE process SET start=9223372036854775807", "UPDATE thread SET process=5",
    "UPDATE process SET source=3", "UPDATE thread_size SET thread=4294967295",
    "UPDATE site SET id=4294967295 WHERE id=1; DELETE FROM site_size",
    "UPDATE process SET id=4294967295 WHERE id=1", "UPDATE site_size SET site=site+900000",
    "UPDATE string SET s=x'00' WHERE id=1", "INSERT INTO cohort VALUES(1,1,99999,1,1)",
])
def test_hostile_profiles_are_refused(run, ranks, tmp_path, statement):
    change(ranks[0], "UPDATE meta SET value=1 WHERE key='start_unix_ns'")
    change(ranks[1], *statement.split("; "))
    for order in ((ranks[1], ranks[0]), (ranks[0], ranks[1])):
        result = run("merge", "-o", "x.mgp", *order, text=True)
        assert result.returncode in (0, 125)
        if result.returncode:
            # What follows one with huge ids cannot be added to it.
            assert re.search(r"r1\.mgp|more than 32 bits", result.stderr)
            assert not (tmp_path / "x.mgp").exists()
        else:
            # Nothing of it may be another's.
            own = "SELECT sum(s.allocs) FROM site s JOIN process p ON p.id=s.process JOIN source o " \
                  "ON o.id=p.source WHERE o.rank=0"
            assert ask(tmp_path / "x.mgp", own) == ask(ranks[0], "SELECT sum(allocs) FROM site")
            (tmp_path / "x.mgp").unlink()
    # The last order is the one in which ids are moved up.
    assert result.returncode == 125


def test_memory_does_not_grow_with_profiles(run, ranks, tmp_path, mallograph, sanitized):
    if sanitized:
        pytest.skip("a sanitizer's memory is its own")
    change(ranks[0], "INSERT INTO block(process,address,site,size,number,born,thread) "
                     "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<300000) "
                     "SELECT 1, 1000000000+i*64, 1, 64, i, i, 1 FROM n")
    copies = []
    for i in range(8):
        copies.append(tmp_path / f"copy{i}.mgp")
        shutil.copy(ranks[0], copies[-1])

    def most(count):
        pid = os.posix_spawn(mallograph, [str(mallograph), "merge", "-o", str(tmp_path / "x.mgp"),
                                          *map(str, copies[:count])], os.environ)
        _, status, usage = os.wait4(pid, 0)
        assert status == 0
        return usage.ru_maxrss

    assert most(8) < most(2) + 40000
