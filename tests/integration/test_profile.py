"""Profiles of real programs, asked with SQL: docs/FORMAT.md's ten questions, and totals against what
the programs counted."""

import os
import re
import resource
import shutil
import sqlite3
import subprocess

import pytest

# Phases whose figures are known; sleeps between them are for the snapshots.
WORKED = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *loaded[1000], *indexes[10], *results[200];

__attribute__((noinline)) static void *xmalloc(size_t size)
{
	void *volatile p = malloc(size);

	if (!p)
		abort();
	return p;
}

__attribute__((noinline)) static void load(void)
{
	for (int i = 0; i < 1000; i++) {
		loaded[i] = xmalloc(1000);
		if (i % 250 == 249)
			usleep(40000);
	}
}

__attribute__((noinline)) static void build_index(void)
{
	for (int i = 0; i < 10; i++)
		indexes[i] = xmalloc(50000);
}

__attribute__((noinline)) static void churn(void)
{
	for (int i = 0; i < 5000; i++)
		free(xmalloc(24));
}

__attribute__((noinline)) static void compute(void)
{
	for (int i = 0; i < 200; i++)
		results[i] = xmalloc(64);
	for (int i = 0; i < 500; i++)
		free(loaded[i]);
}

static void *work(void *argument)
{
	pthread_setname_np(pthread_self(), "worker");
	compute();
	return argument;
}

int main(void)
{
	pthread_t thread;

	load();
	build_index();
	usleep(60000);
	for (int i = 0; i < 10; i++)
		free(indexes[i]);
	churn();
	pthread_create(&thread, NULL, work, NULL);
	pthread_join(thread, NULL);
	usleep(60000);
	return 0;
}
"""


def connect(path):
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


@pytest.fixture(scope="module")
def profile(mallograph, cc, tmp_path_factory):
    path = tmp_path_factory.mktemp("worked") / "worked.mgp"
    program = cc("worked", WORKED, "-O1", "-pthread")
    subprocess.run([mallograph, "-q", "-o", path, program], check=True)
    return path


@pytest.fixture(scope="module")
def questions(root):
    text = (root / "docs" / "FORMAT.md").read_text().split("## Ten questions")[1]
    found = re.findall(r"### (\d+)\. .*?```sql\n(.*?)```", text, re.S)
    assert [number for number, _ in found] == [str(n) for n in range(1, 11)]
    return {int(number): sql for number, sql in found}


@pytest.fixture
def ask(profile, questions):
    return lambda number: connect(profile).execute(questions[number]).fetchall()


def test_question_1_the_peak_by_title(ask):
    answer = {title: rest for title, *rest in ask(1)}
    assert answer["load"] == [1_000_000, 1000, 1000]
    assert answer["build_index"] == [500_000, 10, 10]
    assert "xmalloc" not in answer
    assert [row[1] for row in ask(1)] == sorted((row[1] for row in ask(1)), reverse=True)


def test_question_2_the_stack_of_what_is_left(ask):
    [(live, stack)] = ask(2)
    assert live == 500_000
    names = [line.split(" ")[0] for line in stack.splitlines()]
    assert names[:3] == ["xmalloc", "load", "main"]
    assert re.search(r"worked\.c:\d+\)", stack.splitlines()[1])


def test_question_3_who_is_behind_the_peak(ask, profile):
    answer = dict(ask(3))
    [(peak,)] = connect(profile).execute("SELECT peak_bytes FROM process")
    assert answer["xmalloc"] == 1_500_000
    assert answer["load"] == 1_000_000
    assert 1_500_000 <= answer["main"] <= peak


def test_question_4_temporary_blocks(ask):
    title, file, line, temporary, allocs = ask(4)[0]
    assert (title, temporary, allocs) == ("churn", 5000, 5000)
    assert file.endswith("worked.c") and line > 0


def test_question_5_ages(ask, profile):
    answer = ask(5)
    [(live_bytes, live_blocks)] = connect(profile).execute(
        "SELECT live_bytes, live_blocks FROM process")
    assert sum(row[1] for row in answer) == live_bytes
    assert sum(row[2] for row in answer) == live_blocks
    ages = [row[0] for row in answer]
    assert ages == sorted(ages, reverse=True) and ages[-1] >= 0
    # The blocks of load that are left were its newer half, 80 ms after the start; then it slept on.
    old = sum(bytes_ for age, bytes_, _ in answer if age > 0.1)
    assert old >= 250_000


def test_question_6_the_oldest_blocks(ask, profile):
    answer = ask(6)
    assert [row[0] for row in answer] == sorted(row[0] for row in answer)
    assert all(re.fullmatch("0x[0-9a-f]+", row[3]) for row in answer)
    of_load = connect(profile).execute(
        "SELECT count(*), min(size), max(size) FROM v_block WHERE title_function = 'load'").fetchone()
    assert of_load == (500, 1000, 1000)


def test_question_7_sizes(ask):
    answer = dict(ask(7))
    assert answer[512] >= 1000  # load's 1000
    assert answer[16] >= 5000  # churn's 24
    assert answer[64] >= 200
    assert answer[32768] >= 10
    assert all(value == 0 or value & (value - 1) == 0 for value in answer)


def test_question_8_blocks_freed_elsewhere(ask):
    assert ("worker", "load", 500) in ask(8)


def test_question_9_a_site_over_time(ask):
    answer = ask(9)
    site = [row[3] for row in answer]
    times = [row[0] for row in answer]
    assert times == sorted(times)
    assert site[-1] == 500_000
    # It was loaded in four steps, and snapshots were frequent enough to see them.
    assert {250_000, 500_000, 750_000, 1_000_000} <= set(site)
    assert all(whole >= part for _, whole, _, part in answer)
    assert all(rss is None or rss > 1_000_000 for _, _, rss, _ in answer)
    assert sum(rss is not None for _, _, rss, _ in answer) >= 4


def test_question_10_what_is_missing(ask):
    answer = ask(10)
    assert all(row[0] in ("not seen", "no lines") for row in answer)
    assert not any(name.endswith("worked") for _, name, _, _ in answer)


def test_views_answer(profile):
    db = connect(profile)
    for view in "v_frame", "v_site", "v_timeline", "v_block":
        assert db.execute(f"SELECT count(*) FROM {view}").fetchone()[0] > 0, view
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert dict(db.execute("SELECT key, value FROM meta"))["finished"] == 1


def test_schema_is_the_documents(profile, root):
    schema = (root / "src" / "store" / "schema.sql").read_text()
    empty = sqlite3.connect(":memory:")
    empty.executescript(schema)
    names = "SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"
    assert connect(profile).execute(names).fetchall() == empty.execute(names).fetchall()
    document = (root / "docs" / "FORMAT.md").read_text().split("# The profile")[1]
    for kind, name, _ in empty.execute(names):
        if kind in ("table", "view") and not name.startswith("sqlite_"):
            assert f"`{name}`" in document, name


def totals(path):
    return connect(path).execute(
        "SELECT allocs, frees, alloc_bytes, live_blocks, live_bytes, peak_bytes, peak_blocks "
        "FROM process ORDER BY id").fetchall()


def test_sums_agree(profile):
    """Sites, sizes, threads, cohorts and blocks all add up to the process."""
    db = connect(profile)
    [(allocs, frees, alloc_bytes, blocks, live, peak, peak_blocks)] = totals(profile)
    assert db.execute("SELECT sum(allocs), sum(frees), sum(alloc_bytes), sum(live_blocks), "
                      "sum(live_bytes), sum(peak_bytes), sum(peak_blocks) FROM site").fetchone() == (
        allocs, frees, alloc_bytes, blocks, live, peak, peak_blocks)
    assert db.execute("SELECT sum(allocs), sum(live), sum(bytes) FROM site_size").fetchone() == (
        allocs, blocks, alloc_bytes)
    assert db.execute("SELECT sum(allocs), sum(live), sum(bytes) FROM thread_size").fetchone() == (
        allocs, blocks, alloc_bytes)
    assert db.execute("SELECT sum(allocs), sum(frees), sum(bytes) FROM site_thread").fetchone() == (
        allocs, frees, alloc_bytes)
    assert db.execute("SELECT sum(allocs), sum(frees), sum(bytes) FROM thread").fetchone() == (
        allocs, frees, alloc_bytes)
    assert db.execute("SELECT count(*), sum(size) FROM block").fetchone() == (blocks, live)
    assert db.execute("SELECT sum(blocks), sum(bytes) FROM cohort").fetchone() == (blocks, live)
    last = db.execute("SELECT live_blocks, live_bytes, allocs, frees FROM snap WHERE why = 3")
    assert last.fetchone() == (blocks, live, allocs, frees)


def test_series_add_up_at_every_snapshot(profile):
    db = connect(profile)
    wrong = db.execute("""
        SELECT p.id, p.live_bytes, (SELECT sum(e.live_bytes) FROM series e WHERE e.snap =
            (SELECT max(x.snap) FROM series x WHERE x.site = e.site AND x.snap <= p.id)) s
        FROM snap p WHERE p.why <> 2 AND p.live_bytes <> s""").fetchall()
    assert wrong == []


def test_alloc_fn_is_looked_through(run, cc, tmp_path):
    program = cc("worked", WORKED, "-O1", "-pthread")
    assert run("-q", "-o", "a.mgp", "--alloc-fn", "build_*", "--alloc-fn=comp*", program).returncode == 0
    titles = {row[0] for row in connect(tmp_path / "a.mgp").execute(
        "SELECT title_function FROM v_site")}
    assert "load" in titles and "main" in titles and "work" in titles
    assert not titles & {"build_index", "compute", "xmalloc"}


def test_a_tree_of_processes(run, tmp_path):
    assert run("-q", "-o", "tree.mgp", "sh", "-c", "ls >/dev/null; (exit 3); exec true").returncode == 0
    rows = connect(tmp_path / "tree.mgp").execute(
        "SELECT p.id, p.parent, p.how, s.s, p.end_kind FROM process p JOIN string s ON s.id = p.exe"
    ).fetchall()
    assert rows[0][1:3] == (None, "root") and rows[0][4] == "exec"
    assert any(exe.endswith("/ls") and end == "exit" for _, _, _, exe, end in rows)
    last = [row for row in rows if row[3].endswith("/true")]
    assert len(last) == 1 and last[0][1] == rows[0][0] and last[0][2] == "exec"
    modules = connect(tmp_path / "tree.mgp").execute(
        "SELECT s.s, count(*) FROM module m JOIN string s ON s.id = m.path GROUP BY 1").fetchall()
    # A library is one, in however many processes it was.
    assert all(count == 1 for name, count in modules if "libc.so" in name)


def test_size_does_not_follow_the_run(run, program, tmp_path):
    sizes = []
    for count in 100_000, 10_000_000:
        name = f"churn{count}.mgp"
        assert run("-q", "-o", name, program("script"), "said", f"churn:{count}",
                   timeout=120).returncode == 0
        db = sqlite3.connect(tmp_path / name)
        allocs = db.execute("SELECT sum(allocs) FROM site").fetchone()[0]
        assert allocs >= count
        db.executescript("DELETE FROM series; DELETE FROM snap; DELETE FROM cohort; VACUUM")
        db.close()
        sizes.append((tmp_path / name).stat().st_size)
    assert sizes[1] <= sizes[0] * 1.05, sizes


def test_an_existing_profile_is_replaced_whole(run, tmp_path):
    path = tmp_path / "p.mgp"
    path.write_text("something else")
    path.chmod(0o600)
    assert run("-q", "-o", "p.mgp", "true").returncode == 0
    assert dict(connect(path).execute("SELECT key, value FROM meta"))["finished"] == 1
    assert os.listdir(tmp_path) == ["p.mgp"]


@pytest.fixture
def small_disk(in_namespace, mallograph, runtime, tmp_path):
    """small_disk(KiB, script): runs in a directory on a tmpfs of that size."""
    place = tmp_path / "disk"
    place.mkdir()

    def run_there(size, script):
        return in_namespace(
            f"mount -t tmpfs -o size={size}k none disk && cd disk && {script}", mallograph,
            env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)}, cwd=tmp_path)

    return run_there


@pytest.mark.parametrize("size", [8, 64, 120, 160, 256, 1024, 8192])
def test_disk_full(small_disk, runtime, program, size):
    """At whatever page it fills up: told, the program's exit code kept, no file left over and the old
    one intact, and the recording still there for recover."""
    result = small_disk(size, 'printf old >o.mgp && "$1" -q -o o.mgp '
                              f'{program("script")} said tree:3000 exit:3; echo "code $?"; ls -A; '
                              "head -c 15 o.mgp")
    lines = result.stdout.splitlines()
    assert "code 3" in lines, result
    told = " ".join(result.stderr.split())
    if "SQLite format 3" in result.stdout:
        assert told == ""
    else:
        assert lines[-1].endswith("old")
        assert "No space left on device" in told and "o.mgp" in told, told
        assert "mallograph recover" in told
        assert list(runtime.rglob("*.mgl")), "the recording is gone"
    left = [name for name in lines if name not in ("code 3", "o.mgp", "said") and "old" not in name
            and "SQLite" not in name]
    assert left == [], result.stdout
    for path in runtime.rglob("*.mgl"):
        path.unlink()


def test_no_room_left_at_all(run, tmp_path):
    """A limit on file sizes reached in the middle."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))

    result = run("-q", "-o", "p.mgp", "sh", "-c", "exit 5", text=True, preexec_fn=limit)
    assert result.returncode == 5
    assert (tmp_path / "p.mgp").exists()


def test_hostile_names(run, cc, tmp_path):
    program = cc("odd", "#include <stdlib.h>\nint main(void) { void *volatile p = malloc(7); (void)p; }")
    name = b"odd\xff\n\x1b[31m \xe2\x80\xae;'\"<b>"
    os.makedirs(tmp_path / "d")
    path = os.path.join(os.fsencode(tmp_path / "d"), name)
    shutil.copy(program, path)
    assert run("-q", "-o", "odd.mgp", path, b"\xfe\x01", "-\u00e9").returncode == 0
    db = connect(tmp_path / "odd.mgp")
    [(exe, argv)] = db.execute("SELECT s.s, p.argv FROM process p JOIN string s ON s.id = p.exe")
    assert exe.endswith("odd\\xff\n\x1b[31m \u202e;'\"<b>")
    assert argv == path + b"\0\xfe\x01\0-\xc3\xa9\0"
    assert db.execute("SELECT count(*) FROM v_site WHERE title_function = 'main'").fetchone() == (1,)


def test_many_threads(run, program, cc, tmp_path):
    source = r"""
#include <pthread.h>
#include <stdlib.h>
static void *work(void *p) { free(malloc(33)); return malloc(17) ? p : NULL; }
int main(void)
{
	pthread_t t[50];
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 50; i++)
			pthread_create(&t[i], NULL, work, NULL);
		for (int i = 0; i < 50; i++)
			pthread_join(t[i], NULL);
	}
}
"""
    threads = cc("threads1000", source, "-O0", "-pthread")
    assert run("-q", "-o", "t.mgp", threads).returncode == 0
    db = connect(tmp_path / "t.mgp")
    rows = db.execute("SELECT s.s, t.merged, t.tid FROM thread t JOIN string s ON s.id = t.name").fetchall()
    # Threads have their maker's name until they take another: all of them are one row.
    assert rows == [("threads1000", 1001, None)]
    assert db.execute("SELECT sum(allocs) FROM v_site WHERE title_function = 'work'").fetchone() == (2000,)
