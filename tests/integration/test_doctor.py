"""mallograph doctor: where symbols were looked for, what won, and what to install."""

import json
import os
import re
import shutil
import sqlite3
import subprocess

import pytest

import symbols_help
from symbols_help import Program, build_id


@pytest.fixture
def program(tmp_path):
    (tmp_path / "p").mkdir()
    return Program(tmp_path / "p")


class Answer:
    """What it printed, by module."""

    def __init__(self, text):
        self.text = text
        self.modules = {}
        parts = re.split(r"(?m)^(?=(?:full|lines|symtab|none|pending) +/)", text)
        for part in parts:
            if match := re.match(r"(\w+) +(.*)\n", part):
                paragraph = part.split("\n\n")[0]
                self.modules[match[2]] = (match[1], re.findall(
                    r"(?m)^ {8}(file|build-id|link|name|dwz|split) +(/.*?): (.*)$",
                    paragraph), paragraph)
        self.install = text.partition("INSTALL\n")[2].partition("\n\n")[0].replace("sudo ", "")

    def flat(self):
        return " ".join(self.text.split())


@pytest.fixture
def doctor(run):
    def ask(*words, **options):
        result = run("doctor", *words, text=True, **options)
        assert (result.returncode, result.stderr) == (0, "")
        return Answer(result.stdout)

    return ask


def lines(run, *words):
    report = json.loads(run("report", "--json", "--sites", "all", *words).stdout)
    return {frame["function"]: (os.path.basename(frame["file"]), frame["line"])
            for site in report["sites"] for frame in site["stack"] if frame["file"]}


INLINED = """\
#include <stdlib.h>
static inline __attribute__((always_inline)) void *innermost(int n)
{
	return malloc(n);
}
static __attribute__((noinline)) void *hidden(int n)
{
	return innermost(n + 1);
}
int main(int argc, char **argv)
{
	free(hidden(argc + 40));
	return 0;
}
"""


# The evening this program was begun for.


def founding_case(tmp_path):
    """A stripped program without a link, its debug file under .build-id of a directory alone."""
    source = tmp_path / "found.c"
    source.write_text(INLINED)
    path, root = tmp_path / "found", tmp_path / "debug"
    symbols_help.run("gcc", "-g", "-O1", "-Wl,--build-id", source, "-o", path)
    id = build_id(path)
    debug = root / ".build-id" / id[:2] / f"{id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    symbols_help.run("objcopy", "--only-keep-debug", path, debug)
    symbols_help.run("strip", path)
    return path, root, debug, id


def test_the_founding_case(run, doctor, tmp_path):
    path, root, debug, id = founding_case(tmp_path)
    assert run("-q", "-o", "x.mgp", "--debug-dir", root, path).returncode == 0
    report = json.loads(run("report", "--json", "x.mgp").stdout)
    (site,) = [s for s in report["sites"] if s["sizes"] == [[40, 48, 1]]]
    stack = [(f["function"], os.path.basename(f["file"] or ""), f["line"], f["inlined"])
             for f in site["stack"][:3]]
    assert stack == [("innermost", "found.c", 4, True), ("hidden", "found.c", 8, False),
                     ("main", "found.c", 12, False)]

    level, tries, text = doctor("--debug-dir", root, "x.mgp").modules[str(path)]
    assert level == "full"
    assert tries == [("file", str(path), "no debug information in it"),
                     ("build-id", str(debug), "found")]
    assert text.endswith(f"so        {debug}") and f"build-id {id}" in text


def test_the_founding_case_with_one_byte_of_the_build_id_changed(run, doctor, tmp_path):
    path, root, debug, id = founding_case(tmp_path)
    data = bytearray(debug.read_bytes())
    at = data.index(bytes.fromhex(id))
    data[at + 19] ^= 1
    other = data[at:at + 20].hex()
    debug.write_bytes(data)
    assert run("-q", "-o", "x.mgp", "--debug-dir", root, path).returncode == 0
    # Refused: not one line of it.
    assert "innermost" not in lines(run, "x.mgp") and "hidden" not in lines(run, "x.mgp")
    # And told: by the summary, by info and by the doctor.
    summary = run("report", "--summary", "x.mgp", text=True).stdout
    assert "found: no function names" in summary
    assert "what to install:  mallograph doctor x.mgp" in summary
    info = "".join(run("info", "x.mgp", text=True).stdout.split())
    assert f"{debug}(ofanotherbuild-id)" in info
    level, tries, _ = doctor("--debug-dir", root, "x.mgp").modules[str(path)]
    assert level == "none"
    assert tries[:2] == [("file", str(path), "no debug information in it"),
                         ("build-id", str(debug), f"of another build-id: {other}")]


# What it can be asked about.


def test_the_newest_profile_and_a_ledger(run, doctor, program):
    program.separate(program.by_build_id())
    for name in "x.mgp", "x.mgl":
        run("-q", "-o", name, program.path)
        for words in [], [name]:
            answer = doctor("--debug-dir", program.root, *words)
            assert answer.modules[str(program.path)][0] == "full"
            assert f"{name}: " in answer.text and "have line numbers" in answer.text


def test_the_recorded_build_id_counts_not_the_file_there_now(run, doctor, program):
    run("-q", "-o", "x.mgp", program.path)
    shutil.copy("/bin/true", program.path)
    level, tries, text = doctor("x.mgp").modules[str(program.path)]
    assert level == "none"
    assert tries[0] == ("file", str(program.path), f"of another build-id: {build_id('/bin/true')}")


def test_a_program_and_what_it_needs(doctor, tmp_path, monkeypatch):
    """Found as the loader does: by RUNPATH, by its cache; and what is missing is told."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "in.c").write_text("int inner(void) { return 1; }")
    (tmp_path / "out.c").write_text("int inner(void); int outer(void) { return inner(); }")
    (tmp_path / "gone.c").write_text("int gone(void) { return 1; }")
    (tmp_path / "main.c").write_text("int outer(void), gone(void); int main(void) { return outer() + gone(); }")
    run = symbols_help.run
    run("gcc", "-g", "-shared", "-fPIC", tmp_path / "in.c", "-o", tmp_path / "lib" / "libinner.so")
    run("gcc", "-shared", "-fPIC", tmp_path / "out.c", "-o", tmp_path / "lib" / "libouter.so",
        f"-L{tmp_path}/lib", "-linner", "-Wl,-rpath,${ORIGIN}")
    run("gcc", "-shared", "-fPIC", tmp_path / "gone.c", "-o", tmp_path / "libgone.so")
    run("gcc", "-g", tmp_path / "main.c", "-o", tmp_path / "needy", f"-L{tmp_path}/lib", f"-L{tmp_path}",
        "-louter", "-lgone", f"-Wl,-rpath,$ORIGIN/lib", f"-Wl,-rpath-link,{tmp_path}/lib")
    (tmp_path / "libgone.so").unlink()
    for word in str(tmp_path / "needy"), "./needy":
        answer = doctor(word)
        levels = {os.path.basename(path): level for path, (level, _, _) in answer.modules.items()}
        assert levels["needy"] == "full" and levels["libinner.so"] == "full"
        assert levels["libouter.so"] == "symtab"
        assert any(name.startswith("libc.so") for name in levels)
        assert any(name.startswith("ld-linux") for name in levels)
        assert f"absent  libgone.so: not found; {tmp_path}/needy needs it" in answer.text
        assert "not certain to be the same" not in answer.flat()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert f"{tmp_path}/needy" in doctor("needy").modules


def test_a_script_is_its_interpreter(doctor, tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "script").chmod(0o755)
    assert os.path.realpath("/bin/sh") in doctor("./script").modules


def test_a_process(doctor, cc, tmp_path):
    waits = tmp_path / "waits"
    shutil.copy(cc("waits", "#include <unistd.h>\nint main(void) { char c; return read(0, &c, 1) != 0; }"), waits)
    with subprocess.Popen([waits], stdin=subprocess.PIPE) as process:
        pid = str(process.pid)
        # Until it is itself and has its libraries.
        while "libc.so" not in (maps := open(f"/proc/{pid}/maps").read()) or str(waits) not in maps:
            pass
        for words in [pid], ["-p", pid]:
            answer = doctor(*words)
            assert answer.modules[str(waits)][0] == "full"
            assert any("/libc.so" in path for path in answer.modules)
        # Deleted, it is read through /proc.
        waits.unlink()
        level, tries, _ = doctor(pid).modules[f"{waits} (deleted)"]
        assert level == "full"
        assert tries == [("file", f"/proc/{pid}/exe", "found")]
        process.stdin.close()


@pytest.mark.parametrize("words, code, text", [
    (["a", "b"], 2, "what is b"), (["-p", "x"], 2, "not a pid"), (["--nonsense"], 2, "--nonsense"),
    (["999999999"], 125, "./999999999"), (["./nothing"], 125, "nothing"), (["no-such-word"], 125, "PATH"),
    ([], 125, "no profile"),
])
def test_what_makes_no_sense(run, words, code, text):
    result = run("doctor", *words, text=True)
    assert (result.returncode, result.stdout) == (code, "")
    assert text in result.stderr


def test_names_are_safe_for_a_terminal(run, doctor, tmp_path):
    path = tmp_path / "a\x1b[31mb"
    shutil.copy("/bin/true", path)
    assert "\x1b" not in doctor(path).text


# What to install.


@pytest.fixture
def system(tmp_path, program):
    """A sysroot with a stripped program in it, and the files of a package manager."""
    root = tmp_path / "tree"
    symbols_help.run("strip", program.path)
    (root / "usr/bin").mkdir(parents=True)
    (root / "opt").mkdir()
    shutil.copy(program.path, root / "usr/bin/tool")
    shutil.copy(program.path, root / "opt/mine")

    def put(place, text):
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    put.root = root
    put.id = build_id(program.path)
    return put


DEBIAN = 'ID=debian\nVERSION_CODENAME=bookworm\n'


def test_debian(doctor, system):
    system("etc/os-release", DEBIAN)
    system("var/lib/dpkg/info/tools:amd64.list", "/.\n/usr\n/bin\n/bin/tool\n")
    answer = doctor("--sysroot", system.root, "/usr/bin/tool")
    assert answer.install.splitlines()[0].strip() == "apt-get install tools-dbgsym"
    assert "archive debian-debug, suite bookworm-debug, component main" in answer.flat()
    # Enabled, there is nothing to say of it; a comment does not enable it.
    system("etc/apt/sources.list", "# deb http://x/debian-debug bookworm-debug main\n")
    assert "debian-debug" in doctor("--sysroot", system.root, "/usr/bin/tool").text
    system("etc/apt/sources.list.d/debug.sources", "Types: deb\nSuites: bookworm-debug\n")
    assert "debian-debug" not in doctor("--sysroot", system.root, "/usr/bin/tool").text
    # Of no package.
    answer = doctor("--sysroot", system.root, "/opt/mine")
    assert answer.install == "" and "/opt/mine is of no package: build it with -g" in answer.flat()


def test_debian_by_build_id(doctor, system):
    """APT's lists have the ids, where the archive is known."""
    system("etc/os-release", DEBIAN)
    system("var/lib/dpkg/info/tools.list", "/usr/bin/tool\n")
    system("var/lib/apt/lists/x_Packages",
           "Package: other-dbgsym\nBuild-Ids: 1234\n\n"
           f"Package: real-tools-dbgsym\nSource: tools\nBuild-Ids: {'0' * 40} {system.id}\n\nPackage: last\n")
    answer = doctor("--sysroot", system.root, "/usr/bin/tool")
    assert answer.install.splitlines()[0].strip() == "apt-get install real-tools-dbgsym"
    assert "debian-debug" not in answer.text


@pytest.mark.parametrize("owner, package", [
    ("libc6:amd64", "libc6-dbg"), ("libpython3.11-stdlib:amd64", "python3.11-dbg"),
    ("python3.12-minimal", "python3.12-dbg"),
])
def test_debian_packages_of_an_older_name(doctor, system, owner, package):
    system("etc/os-release", DEBIAN)
    system(f"var/lib/dpkg/info/{owner}.list", "/usr/bin/tool\n")
    answer = doctor("--sysroot", system.root, "/usr/bin/tool")
    assert answer.install.splitlines() == [f"  apt-get install {package}"]


def test_debian_with_the_package_of_another_version(doctor, system):
    system("etc/os-release", DEBIAN)
    system("var/lib/dpkg/info/tools.list", "/usr/bin/tool\n")
    system("var/lib/dpkg/info/tools-dbgsym.list", "/usr/lib/debug/.build-id/00/11.debug\n")
    answer = doctor("--sysroot", system.root, "/usr/bin/tool")
    assert answer.install == ""
    assert "tools-dbgsym is installed, but not for the /usr/bin/tool that is in use" in answer.flat()


def test_ubuntu(doctor, system):
    system("usr/lib/os-release", 'ID="ubuntu"\nID_LIKE=debian\nVERSION_CODENAME=noble\n')
    system("var/lib/dpkg/info/tools.list", "/usr/bin/tool\n")
    answer = doctor("--sysroot", system.root, "/usr/bin/tool")
    assert "apt-get install tools-dbgsym" in answer.install
    assert "archive ddebs, suite noble" in answer.flat()


def test_names_that_are_none_are_not_passed_on(doctor, system):
    system("etc/os-release", 'ID=debian\nVERSION_CODENAME="$(reboot)"\n')
    system("var/lib/dpkg/info/$(reboot).list", "/usr/bin/tool\n")
    answer = doctor("--sysroot", system.root, "/usr/bin/tool")
    assert "reboot" not in answer.text and answer.install == ""


def test_fedora(doctor, system, tmp_path, monkeypatch):
    system("etc/os-release", "ID=fedora\n")
    # Without rpm to ask, by what the packages' files are called.
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    answer = doctor("--sysroot", system.root, "/usr/bin/tool")
    assert answer.install.splitlines() == [
        "  dnf --enablerepo='*debug*' install "
        f"/usr/lib/debug/.build-id/{system.id[:2]}/{system.id[2:]}.debug"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rpm").write_text(
        "#!/bin/sh\n[ \"$7\" = . ] || case \"$6\" in *tool) echo @tools ;; "
        "*) echo file $6 is not owned by any package; exit 1 ;; esac\n")
    (tmp_path / "bin" / "rpm").chmod(0o755)
    answer = doctor("--sysroot", system.root, "/usr/bin/tool")
    assert answer.install.splitlines() == ["  dnf debuginfo-install tools"]


def test_a_build_id_that_is_none_is_not_passed_on(run, doctor, system, program, monkeypatch, tmp_path):
    """It stands in the profile, which anybody may have made, and is meant for a shell."""
    system("etc/os-release", "ID=fedora\n")
    run("-q", "--no-symbols", "-o", "x.mgp", program.path)
    with sqlite3.connect(tmp_path / "x.mgp") as db:
        db.execute("update module set build_id = 'aa;reboot'")
    monkeypatch.setenv("PATH", "/nowhere")
    answer = doctor("--sysroot", system.root, "x.mgp")
    assert "aa;reboot" in answer.text and "reboot" not in answer.install


def test_rhel_is_like_fedora(doctor, system, monkeypatch):
    system("etc/os-release", 'ID="rocky"\nID_LIKE="rhel centos fedora"\n')
    monkeypatch.setenv("PATH", "/nowhere")
    assert "dnf" in doctor("--sysroot", system.root, "/usr/bin/tool").install


def test_arch(doctor, system):
    system("etc/os-release", "ID=arch\n")
    answer = doctor("--sysroot", system.root, "/usr/bin/tool")
    assert answer.install.splitlines()[0] == "  pacman -S --needed debuginfod"
    assert "DEBUGINFOD_URLS" in answer.install


def test_void(doctor, system):
    system("etc/os-release", 'ID="void"\n')
    system("var/db/xbps/.tools-files.plist", "<plist><dict><string>/usr/bin/tool</string></dict></plist>")
    system("var/db/xbps/.others-files.plist", "<plist><string>/usr/bin/tool2</string></plist>")
    answer = doctor("--sysroot", system.root, "/usr/bin/tool")
    assert answer.install.splitlines() == [
        "  xbps-install -S void-repo-debug", "  xbps-install -S tools-dbg"]
    system("usr/share/xbps.d/10-repository-debug.conf", "")
    answer = doctor("--sysroot", system.root, "/usr/bin/tool")
    assert answer.install.splitlines() == ["  xbps-install -S tools-dbg"]


def test_another_system(doctor, system):
    system("etc/os-release", "ID=plan9\n")
    assert "not known" in doctor("--sysroot", system.root, "/usr/bin/tool").flat()
    assert "INSTALL" not in doctor("--sysroot", system.root, "/usr/bin/tool").text
