"""The exec hooks: the new program gets exactly what the old one gave it, and is recorded."""

import os
import re
import shutil
import subprocess

import pytest

import oracle
from programs_help import need

WAYS = (
    "execve execve_null execv execvp execvpe execl execlp execle fexecve execveat execveat_fd "
    "posix_spawn posix_spawn_null posix_spawnp vfork fork failing"
).split()


@pytest.fixture
def path_env(program):
    """An environment in which `show` is found by name, after a folder without it."""
    folder = program("show").parent
    return {**os.environ, "PATH": f"/nowhere:{folder}:{os.environ['PATH']}"}


@pytest.fixture
def compare(mallograph, tmp_path):
    """Runs a command bare and recorded: same output, same exit. The report's processes."""

    def run(*command, env):
        command = [str(word) for word in command]
        ledger = tmp_path / "compare.mgl"
        bare = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
        done = subprocess.run(
            [mallograph, "-q", "-o", ledger, "--", *command],
            env=env,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.decode() == bare.stdout.decode()
        assert done.stderr.decode() == bare.stderr.decode()
        assert done.returncode == bare.returncode
        return oracle.report(mallograph, ledger)

    return run


def shown(report):
    return [p for p in report.processes if os.path.basename(p["exe"]) == "show"]


@pytest.mark.parametrize("how", WAYS)
def test_every_way_gives_the_program_its_own_and_follows(compare, program, path_env, how):
    report = compare(program("execs"), how, program("show"), "show", env=path_env)
    assert len(shown(report)) == 1
    assert shown(report)[0]["allocations"] > 0
    assert [p["losses"] for p in report.processes] == [[]] * len(report.processes)


@pytest.mark.parametrize("separator", [":", " "])
def test_a_preload_of_the_users_own_is_kept(
    compare, program, build, path_env, separator, may_preload
):
    libraries = [build / "tests" / "programs" / f"lib{n}.so" for n in ("count_preload", "inner")]
    env = {**path_env, "LD_PRELOAD": separator.join(map(str, libraries))}
    for how in ("execv", "posix_spawnp", "execve"):
        report = compare(program("execs"), how, program("show"), "show", env=env)
        assert len(shown(report)) == 1


def test_an_empty_preload_stays_empty(compare, program, path_env):
    env = {**path_env, "LD_PRELOAD": ""}
    report = compare(program("execs"), "execvp", program("show"), "show", env=env)
    assert len(shown(report)) == 1


def test_an_emptied_environment_is_followed(compare, program, path_env):
    report = compare("env", "-i", "env", "-i", "A=b", program("show"), "x", env=path_env)
    assert [os.path.basename(p["exe"]) for p in report.processes] == ["env", "env", "show"]
    assert [p["how"] for p in report.processes] == ["root", "exec", "exec"]
    assert [p["end"]["kind"] for p in report.processes] == ["exec", "exec", "exit"]


def test_shells_are_followed_and_the_environment_stays(compare, program, path_env):
    report = compare(program("shells"), program("show"), env=path_env)
    assert len(shown(report)) == 2
    root = report.root
    assert root["end"] == {"kind": "exit", "code": 0}


def test_vfork_children_cost_the_parent_nothing(compare, program, path_env):
    report = compare(program("execs"), "vforks", program("show"), env=path_env)
    assert len(shown(report)) == 200
    assert report.root["losses"] == []


def test_a_script_and_its_interpreter(compare, program, path_env, tmp_path):
    script = tmp_path / "script"
    script.write_text(f"#!{program('show')} -x\nanything\n")
    script.chmod(0o755)
    report = compare(program("execs"), "execv", script, env=path_env)
    assert len(shown(report)) == 1
    shell = tmp_path / "shell"
    shell.write_text(f"{program('show')} of a file without a magic\n")
    shell.chmod(0o755)
    report = compare(program("execs"), "execvp", shell, env=path_env)
    assert len(shown(report)) == 1


def missed(process):
    return [loss for loss in process["losses"] if loss["kind"] == "missed_process"]


def test_a_static_child_runs_as_ever_and_is_said(compare, program, path_env, tmp_path):
    """It cannot be recorded, and must not see our variables either."""
    source = tmp_path / "static.c"
    source.write_text(
        "#define _GNU_SOURCE\n#include <stdio.h>\n#include <unistd.h>\n"
        "int main(void){for(char**e=environ;*e;e++)puts(*e);return 7;}\n"
    )
    child = tmp_path / "static"
    subprocess.run(["cc", "-static", "-o", child, source], check=True)
    report = compare(program("execs"), "posix_spawn", child, env=path_env)
    assert len(report.processes) == 1
    assert missed(report.root) == [
        {"kind": "missed_process", "count": 1, "detail": f"{child} (statically linked)"}
    ]
    report = compare(program("execs"), "vfork", child, env=path_env)
    assert [loss["count"] for loss in missed(report.root)] == [1]


def compile_or_skip(command):
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not here")
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{' '.join(map(str, command[:2]))} does not work here")


@pytest.mark.parametrize("compiler", [["cc", "-m32"], ["musl-gcc"]])
def test_a_child_of_another_loader_runs_as_ever(compare, program, path_env, tmp_path, compiler):
    """ld.so would complain of us on stderr (32-bit); musl's would refuse to start."""
    source = tmp_path / "other.c"
    source.write_text(
        '#include <stdio.h>\n#include <stdlib.h>\n'
        'int main(void){puts(getenv("LD_PRELOAD")?"preload":"none");return 5;}\n'
    )
    child = tmp_path / "other"
    compile_or_skip([*compiler, "-o", child, source])
    report = compare(program("execs"), "posix_spawn", child, env=path_env)
    assert len(report.processes) == 1
    assert len(missed(report.root)) == 1
    script = tmp_path / "script"
    script.write_text(f"#!{child}\n")
    script.chmod(0o755)
    report = compare(program("execs"), "posix_spawnp", script, env=path_env)
    assert len(missed(report.root)) == 1


@pytest.mark.parametrize(
    "compiler",
    [["cc", "-fsanitize=address"], ["cc", "-fsanitize=thread"],
     ["clang", "-fsanitize=address", "-shared-libasan"]],
)  # fmt: skip
def test_a_child_whose_sanitizer_must_come_first_runs_as_ever(
    compare, program, root, path_env, tmp_path, compiler
):
    child = tmp_path / "sanitized"
    source = root / "tests" / "programs" / "show.c"
    compile_or_skip([*compiler, "-D_GNU_SOURCE", "-o", child, source])
    if subprocess.run([child], capture_output=True, check=False).returncode != 0:
        pytest.skip("its runtime is not here")
    report = compare(program("execs"), "posix_spawn", child, env=path_env)
    assert len(report.processes) == 1
    assert len(missed(report.root)) == 1


def test_a_child_preloaded_with_what_must_come_first_runs_as_ever(
    compare, program, path_env, tmp_path
):
    library = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    ).stdout.strip()
    script = tmp_path / "script"
    script.write_text(
        f"#!/bin/sh\nLD_PRELOAD={library} ASAN_OPTIONS=detect_leaks=0 {program('show')} word\n"
    )
    script.chmod(0o755)
    if subprocess.run([script], capture_output=True, check=False).returncode != 0:
        pytest.skip("its runtime is not here")
    report = compare(program("execs"), "posix_spawn", script, env=path_env)
    assert sum(len(missed(process)) for process in report.processes) == 1


@pytest.mark.parametrize(
    "compiler", [["cc", "-static-libasan", "-fsanitize=address"],
                 ["cc", "-static-libtsan", "-fsanitize=thread"],
                 *(["clang", f"-fsanitize={kind}"] for kind in "address thread memory leak".split())],
    ids=" ".join)  # fmt: skip
def test_a_sanitizer_of_the_programs_own_is_outlived(compare, root, path_env, tmp_path, compiler):
    """Such a program defines malloc, mmap and all itself, and asks for what stands behind by
    RTLD_NEXT: that is us, and must not lead back to it."""
    child = tmp_path / "sanitized"
    source = root / "tests" / "programs" / "show.c"
    compile_or_skip([*compiler, "-D_GNU_SOURCE", "-o", child, source])
    report = compare("sh", "-c", f"{child} word; echo $?", env=path_env)
    (process,) = [one for one in report.processes if one["exe"] == str(child)]
    (loss,) = [one for one in process["losses"] if one["kind"] == "own_malloc"]
    assert loss["detail"] == "its sanitizer's: build it without -fsanitize"


LEAKS = r"""
#include <stdlib.h>
#include <unistd.h>
void *volatile kept;
int main(void) { kept = malloc(7); kept = NULL; return write(1, "leaks\n", 6) != 6; }
"""
STRANGERS = {
    "static": (["cc", "-static"], "statically linked"),
    "static-pie": (["cc", "-static-pie"], "statically linked"),
    "32-bit": (["cc", "-m32"], "a 32-bit program"),
    "musl": (["musl-gcc"], "linked with musl"),
    "asan": (["cc", "-fsanitize=address"], "built with a sanitizer"),
    "tsan": (["cc", "-fsanitize=thread"], "built with a sanitizer"),
    "lsan": (["cc", "-fsanitize=leak"], "built with a sanitizer"),
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_why_a_child_was_missed_is_said(run, mallograph, tmp_path, kind):
    """In the summary, in info and as JSON; what it prints, stacks of a leak too, is as ever."""
    compiler, why = STRANGERS[kind]
    (tmp_path / "child.c").write_text(LEAKS)
    compile_or_skip([*compiler, "-O0", "-g", "-o", tmp_path / "child", tmp_path / "child.c"])
    command = ["sh", "-c", "./child; echo $?"]
    bare = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    def scrubbed(text):
        return re.sub(r"==\d+==|0x[0-9a-f]+|\+0x[0-9a-f]+", "", text)

    result = run("-q", "-o", "x.mgp", *command, text=True)
    assert (result.stdout, scrubbed(result.stderr)) == (bare.stdout, scrubbed(bare.stderr))
    told = f"1 process that ran unrecorded (./child ({why}))"
    for words in (["report", "--summary"], ["info"], ["report"]):
        assert told in " ".join(run(*words, "x.mgp", text=True).stdout.split())
    report = oracle.report(mallograph, tmp_path / "x.mgp")
    assert missed(report.root) == [
        {"kind": "missed_process", "count": 1, "detail": f"./child ({why})"}]


VALGRIND = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	free(malloc(100));
	if (argc == 2 && strcmp(argv[1], "again") == 0)
		return execlp("valgrind", "valgrind", "-q", argv[0], "once", (char *)NULL);
	return write(1, "out\n", 4) == 4 ? 5 : 6;
}
"""


@pytest.mark.parametrize("command", [
    ["valgrind", "-q", "./plain"], ["valgrind", "-q", "--error-exitcode=9", "./plain"],
    ["valgrind", "-q", "--tool=massif", "--massif-out-file=out", "./plain"],
    ["sh", "-c", "valgrind -q --trace-children=yes sh -c ./plain; exit $?"], ["./plain", "again"],
], ids=["memcheck", "exitcode", "massif", "children", "again"])  # fmt: skip
def test_a_program_under_valgrind_is_undisturbed_and_said(run, cc, tmp_path, command):
    need("valgrind")
    (tmp_path / "plain").symlink_to(cc("for_valgrind", VALGRIND, "-fno-builtin"))
    result = run("-o", "x.mgp", *command, text=True)
    assert (result.returncode, result.stdout) == (5, "out\n")
    assert result.stderr.startswith("mallograph: ")
    assert "(Valgrind: record what runs in it without it)" in " ".join(result.stderr.split())


def test_the_tool_under_valgrind_records(mallograph, cc, runtime, tmp_path, sanitized):
    need("valgrind")
    if sanitized:
        pytest.skip("needs valgrind, and no sanitizer")
    done = subprocess.run(
        ["valgrind", "-q", "--error-exitcode=9", mallograph, "-q", "-o", "x.mgp",
         cc("for_valgrind", VALGRIND, "-fno-builtin")],
        cwd=tmp_path, env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)}, capture_output=True,
        text=True, timeout=120, check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (5, "out\n"), done.stderr
    assert oracle.report(mallograph, tmp_path / "x.mgp").root["allocations"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a file of another user")
def test_a_setuid_child_runs_as_ever(compare, program, path_env, tmp_path):
    child = tmp_path / "setuid"
    shutil.copy(program("show"), child)
    os.chown(child, 65534, 65534)
    child.chmod(0o4755)
    report = compare(program("execs"), "posix_spawn", child, env=path_env)
    assert len(missed(report.root)) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="gives up its rights")
def test_a_child_that_may_not_read_the_agent_runs_as_ever(mallograph, agent, path_env, tmp_path):
    """ld.so would say on stderr that it cannot open it."""
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    for file in (mallograph, agent):
        shutil.copy(file, hidden)
    done = subprocess.run(
        [hidden / "mallograph", "-q", "-o", tmp_path / "x.mgl", "--", "setpriv", "--reuid=65534",
         "--clear-groups", "sh", "-c", "id -u"],
        env=path_env, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"65534\n", b"")
    report = oracle.report(mallograph, tmp_path / "x.mgl")
    assert len(report.processes) == 1
    assert missed(report.root) == [{"kind": "missed_process", "count": 1, "detail": "sh"}]


def test_an_exec_that_fails_missed_nobody(compare, build, program, path_env, tmp_path):
    """A static program that may not be executed: refused before it is a process."""
    child = tmp_path / "small_static"
    shutil.copy(program("small_static"), child)
    child.chmod(0o644)
    report = compare(program("execs"), "execv", child, env=path_env)
    assert report.root["losses"] == []
    report = compare(program("execs"), "posix_spawn", child, env=path_env)
    assert report.root["losses"] == []


def test_a_session_the_program_names_wins(mallograph, agent, program, path_env, tmp_path):
    """A recorded shell in which somebody preloads the agent by hand, for a ledger of his own."""
    theirs, ours = tmp_path / "theirs.mgl", tmp_path / "ours.mgl"
    subprocess.run(
        [mallograph, "-q", "-o", ours, "--", "env", f"LD_PRELOAD={agent}",
         f"MALLOGRAPH_OUT={theirs}", program("show")],
        env=path_env, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    assert [os.path.basename(p["exe"]) for p in oracle.report(mallograph, ours).processes] == ["env"]
    assert len(shown(oracle.report(mallograph, theirs))) == 1


AT_ITS_LIMIT = """
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	for (int i = 0; argc == 1 && i < 100000; i++)
		if (!malloc(16 + i % 3000 * 16))
			return 3;
	if (argc > 1)
		return 0;
	execl(argv[0], "again", "x", NULL);
	return 4;
}
"""


def test_what_a_ledger_at_its_limit_does_not_have_is_named(run, cc, mallograph, tmp_path):
    """A new image that gets no ledger, with the reason."""
    program = cc("at_its_limit", AT_ITS_LIMIT, "-fno-builtin", "-w")
    result = run("-q", "--max-ledger", "1M", "-o", "limit.mgl", program)
    assert result.returncode == 0
    (process,) = oracle.report(mallograph, tmp_path / "limit.mgl").processes
    assert {"kind": "missed_process", "count": 1,
            "detail": "at_its_limit (limit for the ledger)"} in process["losses"]


BRIM = r"""
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static char *argv[] = {"sh", "-c", ":", NULL};
static char *filled[300];
static const char *how;
#define IS(name) (strcmp(how, name) == 0)
static void fill(size_t bytes)
{
	size_t n = 0;
	for (; bytes > 0; n++) {
		size_t part = bytes < 1000 ? bytes : 1000;
		filled[n] = memset(calloc(1, part + 8), 'x', part + 6);
		memcpy(filled[n], "V000=", 5);
		filled[n][1] = '0' + n / 100, filled[n][2] = '0' + n / 10 % 10;
		filled[n][3] = '0' + n % 10;
		bytes -= part;
	}
	filled[n] = NULL;
	environ = filled;
}
static int spawned(void)
{
	pid_t pid;
	int status = 1, error = IS("posix_spawn")
			? posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ)
			: posix_spawnp(&pid, "/bin/sh", NULL, NULL, argv, environ);
	if (!error)
		waitpid(pid, &status, 0);
	return error ? error == E2BIG ? 0 : -1 : status == 0;
}
static int takes(size_t bytes)
{
	pid_t pid;
	int status;
	fill(bytes);
	if (IS("system"))
		return system(":") == 0;
	if (IS("popen")) {
		FILE *f = popen(":", "r");
		return f && pclose(f) == 0;
	}
	if (how[0] == 'p')
		return spawned();
	if ((pid = IS("vfork") ? vfork() : fork()) == 0) {
		if (IS("execve") || IS("vfork"))
			execve("/bin/sh", argv, environ);
		else if (IS("execv"))
			execv("/bin/sh", argv);
		else if (IS("execvpe"))
			execvpe("sh", argv, environ);
		else if (IS("execlp"))
			execlp("sh", "sh", "-c", ":", (char *)NULL);
		else if (IS("fexecve"))
			fexecve(open("/bin/sh", O_RDONLY | O_CLOEXEC), argv, environ);
		else if (IS("execveat"))
			execveat(AT_FDCWD, "/bin/sh", argv, environ, 0);
		else
			syscall(SYS_execve, "/bin/sh", argv, environ);
		_exit(errno == E2BIG ? 9 : 8);
	}
	waitpid(pid, &status, 0);
	return status == 0 ? 1 : status == 9 << 8 ? 0 : -1;
}
int main(int argc, char **words)
{
	size_t low = 0, high = 250000;
	setrlimit(RLIMIT_STACK, &(struct rlimit){800 << 10, 800 << 10});
	for (how = words[1]; high - low > 1;) {
		size_t middle = (low + high) / 2;
		int is = takes(middle);
		if (is < 0)
			return 3;
		*(is ? &low : &high) = middle;
	}
	printf("%zu\n", low);
	return 0;
}
"""


@pytest.mark.parametrize("how", "execve execv execvpe execlp fexecve execveat vfork posix_spawn "
                                "posix_spawnp system popen syscall".split())
def test_the_kernels_limit_is_where_it_was(compare, cc, how):
    """An environment that is full without our variables goes without them, and is counted."""
    report = compare(cc("brim", BRIM), how, env=os.environ)
    missed = sum(oracle.Report.losses(p).get("missed_process", 0) for p in report.processes)
    assert 1 <= missed < 20
    assert len(report.processes) > 3


RIGHTS = r"""
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv)
{
	char *command[] = {"sh", "-c", "id -u; :", NULL};
	int status = 1;
	pid_t pid;
	free(malloc(3));
	if (strcmp(argv[1], "user") == 0 ? setresuid(65534, 65534, 65534)
	    : strcmp(argv[1], "effective") == 0 ? seteuid(65534) : setegid(65534))
		return 9;
	if (strcmp(argv[2], "system") == 0)
		return system("id -u; :");
	if (strcmp(argv[2], "exec") == 0)
		return execv("/bin/sh", command);
	posix_spawn(&pid, "/bin/sh", NULL, NULL, command, environ);
	waitpid(pid, &status, 0);
	return status;
}
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="gives up its rights")
@pytest.mark.parametrize("way", ["exec", "spawn", "system"])
@pytest.mark.parametrize("rights", ["user", "effective", "group"])
def test_with_fewer_rights_children_are_missed_and_said(compare, cc, rights, way):
    """Another user cannot open the session file. Where effective ids are not the real ones the loader
    heeds no LD_PRELOAD."""
    report = compare(cc("rights", RIGHTS), rights, way, env=os.environ)
    assert len(report.processes) == 1
    told = {"kind": "missed_process", "count": 1, "detail": None if way == "system" else "/bin/sh"}
    assert missed(report.root) == [told]


def test_in_a_place_without_the_session_children_are_missed(in_namespace, mallograph, tmp_path):
    """As in a sandbox that has a /dev/shm of its own."""
    env = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
    done = in_namespace(
        '"$1" -o x.mgp -- unshare -m sh -c "mount -t tmpfs none /dev/shm && uname -s && uname -s"',
        mallograph, env=env, cwd=tmp_path)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "Linux\nLinux\n")
    assert "2 processes that ran unrecorded" in " ".join(done.stderr.split())
