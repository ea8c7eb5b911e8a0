"""A tree of processes that really ran: what is told of all, by program, and of some."""

import json
import os
import re
import signal

import pytest

WORKER = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) void *hold(size_t size) { return memset(malloc(size), 1, size); }
int main(int argc, char **argv)
{
	void *volatile block = hold(strtoul(argv[argc - 1], NULL, 10));
	usleep(200000);
	free(block);
	return 0;
}
"""
SCRIPT = "{0} 30000000 & {0} 20000000 & for i in 1 2 3 4 5; do uname >/dev/null; done; wait"


@pytest.fixture
def tree(run, cc):
    """Two workers at once and five short helpers, below a shell."""
    worker = cc("worker", WORKER, "-O1")
    assert run("-q", "-o", "x.mgp", "bash", "-c", SCRIPT.format(worker)).returncode == 0
    return worker


def test_the_summary_leads_to_the_workers(run, tree):
    text = run("report", "--summary", text=True).stdout
    assert re.search(r"; 8 processes of 3 programs, complete\n", text)
    peak, most = re.search(r"TREE PEAK +([\d.]+) MiB .*at most ([\d.]+) MiB", text).groups() \
        if "at most" in text else (re.search(r"TREE PEAK +([\d.]+) MiB", text)[1], None)
    assert 28.6 <= float(peak) <= 48.5 and (most is None or float(most) >= 47.6)
    assert re.search(r"^ 28\.6 MiB .* 2 .* worker, largest: pid \d+$", text, re.M)
    assert re.search(r" 5 short helpers: uname|  uname, largest: pid \d+$", text, re.M)
    assert re.search(r"worker, pid \d+, a\s+child of bash, pid \d+\.", text)
    assert re.search(r"^PEAK BY SITE of worker, pid \d+ \(its own peak, 28\.6 MiB\)$", text, re.M)
    assert re.search(r"^ 28\.6 MiB +100\.0 .* hold < main$", text, re.M)
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_the_list_is_a_tree(run, tree):
    text = run("report", text=True).stdout
    lines = text.split("\nPROCESSES\n")[1].split("\n\n")[0].splitlines()[1:]
    assert re.search(r" root +exit 0 .*  bash -c ", lines[0])
    assert sum(bool(re.search(r"   worker [23]0000000$", line)) for line in lines) == 2
    assert any(re.search(r" x 5  fork\+exec .*   uname$", line) for line in lines)
    assert "in 2 processes" in text and "47.7 MiB at" not in text


def test_some_of_them(run, tree):
    whole = json.loads(run("report", "--json", "--sites", "all").stdout)
    workers = {p["pid"]: p["id"] for p in whole["processes"] if p["exe"] == str(tree)}
    assert len(workers) == 2
    for selector in (str(next(iter(workers))), f"id:{next(iter(workers.values()))}"):
        part = json.loads(run("report", "--json", "--process", selector).stdout)
        assert next(iter(workers.values())) in {p["id"] for p in part["processes"]}
        assert {s["process"] for s in part["sites"]} <= {p["id"] for p in part["processes"]}
    part = json.loads(run("report", "--json", "--process", "work*", "--sites", "all").stdout)
    assert {p["id"] for p in part["processes"]} == set(workers.values())
    wanted = [s for s in whole["sites"] if s["process"] in workers.values()]
    assert part["sites"] == wanted
    assert part["tree"]["allocations"] == sum(s["allocations"] for s in wanted)
    sizes = run("hist", "--process", "worker", "--bytes", text=True).stdout
    assert "47.7 MiB" in sizes
    assert "worker" in run("blocks", "--process", "worker", text=True).stdout
    refused = run("report", "--process", "nobody", text=True)
    words = " ".join(refused.stderr.split())
    assert refused.returncode == 2 and "no process is nobody There are: bash (pid " in words
    assert "uname (5 processes)" in words


@pytest.mark.parametrize("words, shown, hidden", [
    (["report", "--by", "program"], r"\nworker, 2 processes: peak 28\.6 MiB \(pid \d+\), ", "47.7 MiB at"),
    (["report", "--by", "process"], r"\nworker, pid \d+: peak 19\.1 MiB, ", "in 2 processes"),
    (["report", "--tree", "--bytes"], r"^8 processes together\n[\d.]+ MiB allocated", "worker, pid"),
    (["report", "--tree"], r"\nworker, pid \d+\n19\.1 MiB at the peak", "together"),
    (["hist", "--by", "program"], r"\nuname\n", "worker, pid"),
    (["hist", "--by", "process"], r"worker, pid \d+\n", "2 processes"),
])
def test_by_process_and_program(run, tree, words, shown, hidden):
    text = run(*words, text=True).stdout
    assert re.search(shown, text) and hidden not in text


@pytest.mark.parametrize("words", [
    ("--by", "thread"), ("--by", "process", "--json"), ("--by", "program", "--summary"),
    ("--processes", "x"), ("--processes", "3", "--tree"),
])
def test_what_makes_no_sense(run, tree, words):
    assert run("report", *words).returncode == 2


def test_the_head_tells_the_whole_run(run, cc, tmp_path):
    """What was typed until its last exit; who went on, and who died; what lives, and what was left."""
    worker = cc("stays", WORKER.replace("free(block);", "if (argc > 2) write(1, \"\\n\", 1), pause();"), "-O1")
    os.mkfifo(tmp_path / "ready")
    script = (f"{worker} 9000000; {worker} on 20000000 >ready 2>&1 & echo $!; read <ready; "
              "bash -c 'kill -SEGV $$' >/dev/null 2>&1; exit 5")
    result = run("-o", "x.mgp", "--", "env", "A=1", "bash", "-c", script, text=True)
    os.kill(int(result.stdout), signal.SIGKILL)
    text = result.stderr[result.stderr.index("mallograph: env A=1 bash -c "):]
    facts = " ".join(text.split("\n\n")[0].split())
    took = re.search(r" pid \d+, bash, exit 5, ([\d.]+) s; 4 processes of 3 programs, "
                     r"1 still runs, 1 died of a signal$", facts)
    assert took and 0.4 <= float(took[1]) < 20
    live = re.search(r"^  LIVE NOW +([\d.]+) MiB  in \d+ blocks? of 1 process that still runs$", text, re.M)
    left = re.search(r"^  LEFT +([\d.]+) MiB  in [\d,]+ blocks by those that ended, ", text, re.M)
    peak = re.search(r"^  TREE PEAK +([\d.]+) MiB ", text, re.M)
    assert 19.0 <= float(live[1]) <= float(peak[1]) and 8.5 <= float(left[1]) < 12
    assert [line for line in text.split("SAVED")[0].splitlines() if len(line) > 80] == []
