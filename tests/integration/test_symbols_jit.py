"""Code made at run time has the names its maker gave it: perf map files, jitdump files."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

# Makes a function that calls malloc, keeps rbp, and says so as it is told: map, old, none.
MAKER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile kept;

static void make(const char *how, unsigned int size, const char *name)
{
	/* push rbp; mov rbp, rsp; movabs rax, malloc; mov edi, size; call rax; pop rbp; ret */
	unsigned char code[] = "\x55\x48\x89\xe5\x48\xb8........\xbf....\xff\xd0\x5d\xc3";
	uint64_t target = (uint64_t)(uintptr_t)malloc;
	char path[64];

	memcpy(code + 6, &target, 8);
	memcpy(code + 15, &size, 4);
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(page, code, sizeof(code));
	kept = ((void *(*)(void))page)();
	if (strcmp(how, "none") == 0)
		return;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	FILE *map = fopen(path, "a");

	fprintf(map, "%lx %zx %s\n", (unsigned long)page, sizeof(code), name);
	fclose(map);
	if (strcmp(how, "old") == 0) {
		struct timespec times[2] = {{1000000000, 0}, {1000000000, 0}};

		utimensat(0, path, times, 0);
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	make(argv[1], 1000, "outer made");
	if (fork() == 0) {
		make(argv[1], 2000, "JS:*child /srv/child.js:7:3");
		return 0;
	}
	return wait(NULL) < 0;
}
"""

SCRIPT = """
function keepSome(n) {
	const all = [];
	for (let i = 0; i < n; i++)
		all.push(Buffer.allocUnsafeSlow(20000));
	return all;
}
function doAll() {
	let sum = 0;
	for (let i = 0; i < 300; i++)
		sum += keepSome(10).length;
	return sum;
}
for (let i = 0; i < 10; i++)
	doAll();
"""


def sites(run, name, *options):
    said = run("report", "--json", "--sites", "1000", "--live", name, *options).stdout
    return json.loads(said)["sites"]


@pytest.fixture
def maker(cc):
    """maker's path; the map files that its runs left are removed."""
    before = set(pathlib.Path("/tmp").glob("perf-*.map"))
    yield cc("maker", MAKER)
    for path in set(pathlib.Path("/tmp").glob("perf-*.map")) - before:
        path.unlink()


def above(run, size):
    """What called malloc for the block of that size, whatever process it is of."""
    return [frame for site in sites(run, "x.mgp") if site["live_bytes"] == size
            for frame in site["stack"][:1]]


def test_perf_map(run, maker):
    assert run("-q", "-o", "x.mgp", maker, "map").returncode == 0
    (outer,), (child,) = above(run, 1000), above(run, 2000)
    assert outer["function"] == "outer made" and outer["file"] is None
    assert (child["function"], child["file"], child["line"], child["column"]) == (
        "JS:*child", "/srv/child.js", 7, 3)
    kinds = run("query", "select kind, symbols from module where kind in ('jit', 'anon')", "x.mgp",
                text=True).stdout
    assert kinds.split()[-2:] == ["jit", "symtab"]


@pytest.mark.parametrize("how", ["none", "old"])
def test_no_map_of_its_own(run, maker, how):
    """A file that an earlier process of that number left is nobody's now."""
    assert run("-q", "-o", "x.mgp", maker, how).returncode == 0
    (outer,) = above(run, 1000)
    assert outer["function"] is None and outer["offset"] > 4096
    assert b"no perf map or jitdump file" in run("info", "x.mgp").stdout


@pytest.mark.parametrize("option", ["--perf-basic-prof", "--perf-prof"])
def test_node(run, tmp_path, option):
    if not shutil.which("node"):
        assert not os.environ.get("CI"), "no node"
        pytest.skip("no node")
    (tmp_path / "work.js").write_text(SCRIPT)
    before = set(pathlib.Path("/tmp").glob("perf-*.map"))
    # Only there can it tell an interpreted function from another.
    result = run("-q", "-o", "x.mgp", "node", option, "--interpreted-frames-native-stack",
                 "work.js", cwd=tmp_path)
    for path in set(pathlib.Path("/tmp").glob("perf-*.map")) - before:
        path.unlink()
    assert result.returncode == 0, result.stderr
    said = run("report", "--json", "--sites", "1000", "--allocations", "x.mgp").stdout
    calls = {}
    for site in json.loads(said)["sites"]:
        names = {frame["function"].split(":")[-1].strip("*~^+") for frame in site["stack"]
                 if frame["function"] and frame["function"].startswith(("JS:", "LazyCompile:",
                                                                        "Function:"))}
        for name in names:
            calls[name] = calls.get(name, 0) + site["allocations"]
    # Each buffer is an allocation or two; most are made by what was seen to be hot.
    assert calls["keepSome"] >= 10 * 300 * 10 * 0.9
    assert calls["doAll"] >= calls["keepSome"] * 0.9
