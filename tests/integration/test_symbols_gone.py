"""Programs whose files are not where they were when they end, and those that ld.so was given."""

import json
import os
import shutil
import subprocess

import pytest

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *library_keep(size_t size);

__attribute__((noinline)) static void *program_keep(size_t size)
{
	char *p = malloc(size);

	if (p)
		p[0] = 1;
	return p;
}

int main(int argc, char **argv)
{
	void *volatile kept[2];

	(void)argc;
	kept[0] = program_keep(1000);
	kept[1] = library_keep(2000);
	if (argv[1] && strcmp(argv[1], "unlink") == 0)
		unlink(argv[0]);
	if (argv[1] && strcmp(argv[1], "wait") == 0) {
		puts("ready");
		fflush(stdout);
		getchar();
	}
	return kept[0] == NULL || kept[1] == NULL;
}
"""

LIBRARY = r"""
#include <stdlib.h>

__attribute__((noinline)) void *library_keep(size_t size)
{
	char *p = malloc(size);

	if (p)
		p[0] = 1;
	return p;
}
"""


@pytest.fixture
def place(tmp_path):
    """A directory with the program and its library, which has its names in no symbol table."""
    (tmp_path / "program.c").write_text(PROGRAM)
    (tmp_path / "library.c").write_text(LIBRARY)
    subprocess.run(["cc", "-g", "-O1", "-shared", "-fPIC", "-Wl,--build-id=sha1", "-o",
                    "libkeep.so", "library.c"], cwd=tmp_path, check=True)
    subprocess.run(["cc", "-g", "-O1", "-Wl,--build-id=sha1", "-o", "program", "program.c",
                    "./libkeep.so"], cwd=tmp_path, check=True)
    return tmp_path


def named(mallograph, place):
    """{size of the site: (its function, file, line)}"""
    said = subprocess.run([mallograph, "report", "--json", "--live", "x.mgp"], cwd=place,
                          capture_output=True, check=True).stdout
    return {site["live_bytes"]: site["stack"][0] for site in json.loads(said)["sites"]}


def assert_named(mallograph, place):
    sites = named(mallograph, place)
    assert sites[1000]["function"] == "program_keep" and sites[1000]["line"] == 11
    assert sites[2000]["function"] == "library_keep" and sites[2000]["line"] == 6


def test_a_program_that_removes_itself(run, mallograph, place):
    assert run("-q", "-o", "x.mgp", "./program", "unlink", cwd=place).returncode == 0
    assert not (place / "program").exists()
    assert_named(mallograph, place)


@pytest.mark.parametrize("name", ["program", "libkeep.so"])
@pytest.mark.parametrize("way", ["removed", "replaced"])
def test_while_it_runs(mallograph, runtime, place, name, way, sanitized):
    """As an upgrade does it: the new file is renamed over the old one."""
    with subprocess.Popen([mallograph, "-q", "-o", "x.mgp", "./program", "wait"], cwd=place,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=dict(os.environ, XDG_RUNTIME_DIR=str(runtime))) as tool:
        assert tool.stdout.readline() == b"ready\n"
        # The collector looks at a process every so often, the first time soon.
        subprocess.run(["sleep", "3" if sanitized else "0.3"], check=True)
        if way == "removed":
            (place / name).unlink()
        else:
            shutil.copy("/bin/true", place / "new")
            (place / "new").rename(place / name)
        tool.stdin.close()
        assert tool.wait() == 0
    assert_named(mallograph, place)


@pytest.mark.parametrize("how", [["./program"], ["/"], ["--argv0", "another", "./program"]])
def test_given_to_the_dynamic_linker(run, mallograph, place, how):
    command = [str(place / "program") if word == "/" else word for word in how]
    result = run("-o", "x.mgp", "/lib64/ld-linux-x86-64.so.2", *command, cwd=place)
    assert result.returncode == 0
    assert_named(mallograph, place)
    exe = "select s from process join string on string.id = exe"
    said = subprocess.run([mallograph, "query", exe, "x.mgp"], cwd=place, capture_output=True,
                          text=True, check=True).stdout
    assert said.split()[-1] == str(place / "program")
