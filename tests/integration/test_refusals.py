"""What cannot be recorded is refused before it starts, with what to do about it."""

import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest

TRUE = Path(shutil.which("true")).resolve()


@pytest.fixture
def refused(run, tmp_path):
    """refused(program, code, text, …): not started, for that reason."""

    def check(program, code, *texts, **options):
        result = run("-q", program, text=True, **options)
        words = " ".join(result.stderr.split())
        assert result.returncode == code, words
        assert words.startswith("mallograph: ")
        for text in texts:
            assert text in words
        assert list(tmp_path.glob("*.mg?")) == []
        return words

    return check


def executable(path, data):
    path.write_bytes(data) if isinstance(data, bytes) else path.write_text(data)
    path.chmod(0o755)
    return path


def patched(tmp_path, offset, data):
    image = bytearray(TRUE.read_bytes())
    image[offset:offset + len(data)] = data
    return executable(tmp_path / "patched", bytes(image))


def loader_at(image):
    """Where PT_INTERP's string stands."""
    phoff, = struct.unpack_from("<Q", image, 32)
    for i in range(struct.unpack_from("<H", image, 56)[0]):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", image, phoff + 56 * i)
        if kind == 3:
            return offset, size
    raise AssertionError("no PT_INTERP")


HELLO = "int main(void) { return 0; }"


def test_static(refused, cc):
    refused(cc("static", HELLO, "-static"), 125, "statically linked", "-static")


def test_static_pie(refused, cc):
    refused(cc("static_pie", HELLO, "-static-pie"), 125, "statically linked", "-static-pie")


def test_an_appimage(refused, run, cc, tmp_path):
    """As its magic says. One whose first program is dynamic is followed into what that starts."""
    for name, flags in ("dynamic", []), ("static", ["-static"]):
        image = bytearray(cc(name, HELLO, *flags).read_bytes())
        image[8:11] = b"AI\2"
        executable(tmp_path / f"{name}.AppImage", bytes(image))
    refused("./static.AppImage", 125, "AppImage", "--appimage-extract")
    assert run("-q", "./dynamic.AppImage").returncode == 0


@pytest.mark.parametrize("flags", [
    *(["cc", f"-fsanitize={kind}"] for kind in ("address", "thread", "leak")),
    ["cc", "-fsanitize=address", "-static-libasan"], ["cc", "-fsanitize=thread", "-static-libtsan"],
    *(["clang", f"-fsanitize={kind}"] for kind in ("address", "thread", "leak", "memory")),
    ["clang", "-fsanitize=address", "-shared-libasan"]], ids=" ".join)  # fmt: skip
def test_a_sanitizer(refused, tmp_path, flags):
    """One whose allocator must come first, or is in the program."""
    source = tmp_path / "sanitized.c"
    source.write_text(HELLO)
    if not shutil.which(flags[0]) or subprocess.run(
            [*flags, "-o", tmp_path / "sanitized", source], capture_output=True,
            stdin=subprocess.DEVNULL).returncode:
        pytest.skip("no such sanitizer here")
    refused("./sanitized", 125, "sanitizer", "Build it without -fsanitize")
    # What GCC links in has no names then.
    if flags[-1] != "-static-libasan" and flags[-1] != "-static-libtsan":
        subprocess.run(["strip", tmp_path / "sanitized"], check=True)
        refused("./sanitized", 125, "sanitizer", "Build it without -fsanitize")


@pytest.mark.parametrize("flags", [["cc"], ["clang"], ["clang", "-shared-libsan"]], ids=" ".join)
def test_a_sanitizer_without_an_allocator_is_recorded(run, tmp_path, flags):
    source = tmp_path / "sanitized.c"
    source.write_text("#include <stdlib.h>\nint main(void) { free(malloc(9)); return 0; }\n")
    command = [*flags, "-fsanitize=undefined", "-fno-builtin", "-o", tmp_path / "sanitized", source]
    if not shutil.which(flags[0]) or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no such sanitizer here")
    if subprocess.run([tmp_path / "sanitized"], capture_output=True).returncode:
        pytest.skip("its library is not found here")
    result = run("./sanitized", text=True)
    assert result.returncode == 0
    assert "ALLOCATED" in result.stderr and "NOT SEEN" not in result.stderr


def test_a_preloaded_sanitizer(refused, cc, own_runtime):
    library = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True,
                             text=True).stdout.strip()
    if not os.path.isabs(library):
        pytest.skip("no such sanitizer here")
    env = {**os.environ, "LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"}
    refused(cc("hello", HELLO), 125, library, "sanitizer", "Take it out", env=env)


def test_no_session_file_of_any_size(run, cc, own_runtime):
    result = run("-q", cc("hello", HELLO), text=True,
                 before=["sh", "-c", 'ulimit -f 0; exec "$@"', "sh"])
    assert result.returncode == 125
    assert "ulimit -f unlimited" in result.stderr


@pytest.mark.parametrize("limit", [5, 8])
def test_too_few_descriptors(run, cc, limit):
    """Two of the places that come short."""
    result = run("-q", cc("hello", HELLO), text=True,
                 before=["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"])
    assert result.returncode == 125
    assert "ulimit -n" in result.stderr


def test_32_bit(refused, tmp_path):
    refused(patched(tmp_path, 4, b"\1"), 125, "32-bit", "-m64")


@pytest.mark.parametrize("machine", [183, 243, 3])
def test_another_processor(refused, tmp_path, machine):
    refused(patched(tmp_path, 18, struct.pack("<H", machine)), 125, "another processor")


def test_another_byte_order(refused, tmp_path):
    refused(patched(tmp_path, 5, b"\2"), 125, "another processor")


def test_musl(refused, tmp_path):
    offset, _ = loader_at(TRUE.read_bytes())
    refused(patched(tmp_path, offset, b"/lib/ld-musl-x86_64.so.1\0"), 125, "musl", "glibc")


def test_an_unknown_loader(refused, tmp_path):
    offset, _ = loader_at(TRUE.read_bytes())
    refused(patched(tmp_path, offset, b"/lib/ld-other.so\0"), 125, "/lib/ld-other.so")


def test_a_missing_loader(refused, tmp_path):
    offset, _ = loader_at(TRUE.read_bytes())
    refused(patched(tmp_path, offset, b"/no/ld-linux-x86-64.so.2\0"), 125,
            "/no/ld-linux-x86-64.so.2", "missing")


def test_damaged_files_are_told_whatever_is_missing(run, tmp_path):
    image = TRUE.read_bytes()
    sizes = [4, 5, 16, 17, 51, 52, 63, 64, 65, 100, 300, 700, len(image) // 2, len(image) - 1]
    for size in sizes:
        program = executable(tmp_path / "cut", image[:size])
        result = run("-q", program, text=True)
        if size < 300:
            assert result.returncode == 125, size
            assert "damaged" in result.stderr, size
        else:
            try:
                assert result.returncode == subprocess.run([program]).returncode
            except OSError:
                assert result.returncode in (125, 126)


@pytest.mark.parametrize("offset, size", [(32, 8), (40, 8), (54, 2), (56, 2), (58, 2), (60, 2), (62, 2)])
def test_wild_headers_are_bounded(run, tmp_path, offset, size):
    for fill in b"\xff", b"\x00", b"\x7f":
        program = patched(tmp_path, offset, fill * size)
        assert run("-q", "-o", "/dev/null", program).returncode in (0, 125, 126)


def test_not_found(refused):
    refused("no-such-program", 127, "no-such-program", "PATH", "./", "--help")
    refused("./none", 127, "no such program")
    refused("", 127)


def test_found_but_not_executable(refused, tmp_path):
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    refused("./plain", 126, "Permission denied", "chmod +x")
    refused("plain", 126, "Permission denied", env={"PATH": str(tmp_path)})
    refused("./", 126, "directory")
    refused("./plain/x", 126, "Not a directory")


def test_a_later_one_in_path_is_taken(run, tmp_path):
    for name in "a", "b":
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "prog").write_text("")
    executable(tmp_path / "b" / "prog", "#!/bin/sh\nexit 4\n")
    assert run("-q", "prog", env={"PATH": f"{tmp_path}/a:{tmp_path}/b"}).returncode == 4


def test_interpreters_are_followed(refused, cc, tmp_path):
    static = cc("static", HELLO, "-static")
    executable(tmp_path / "inner", f"#!{static}\n")
    executable(tmp_path / "outer", f"#! {tmp_path}/inner -x\n")
    refused("./outer", 125, str(static), "statically linked")


@pytest.mark.parametrize("line, code, text", [
    ("#!/no/such/interpreter\n", 127, "/no/such/interpreter"),
    ("#!/\n", 126, "directory"),
    ("#!\n", 126, "interpreter"),
    ("#!/" + "x" * 300 + "\n", 126, "interpreter"),
    ("#!{self}\n", 126, "symbolic links"),
])
def test_broken_scripts(refused, tmp_path, line, code, text):
    script = executable(tmp_path / "script", "")
    script.write_text(line.format(self=script))
    refused(script, code, text)


def needs_root():
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.mark.parametrize("mode, text", [(0o4755, "setuid"), (0o2755, "setgid")])
def test_another_identity(refused, run, tmp_path, mode, text):
    needs_root()
    program = executable(tmp_path / "other", TRUE.read_bytes())
    os.chown(program, 65534, 65534)
    program.chmod(mode)
    refused(program, 125, text, "cp")
    # Where it changes nothing it counts for nothing.
    os.chown(program, 0, 0)
    program.chmod(mode)
    assert run("-q", program).returncode == 0


def test_setuid_that_has_no_effect(run, tmp_path):
    needs_root()
    program = executable(tmp_path / "other", TRUE.read_bytes())
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    assert run("-q", program, before=["setpriv", "--no-new-privs"]).returncode == 0


def test_file_capabilities(mallograph, agent):
    needs_root()
    top = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        top.chmod(0o777)
        for file in mallograph, agent:
            shutil.copy(file, top)
        program = executable(top / "capable", TRUE.read_bytes())
        os.setxattr(program, "security.capability",
                    struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0))
        options = dict(capture_output=True, text=True, cwd=top)
        result = subprocess.run([top / "mallograph", "-q", program], user=65534, group=65534,
                                extra_groups=[], **options)
        assert result.returncode == 125, result.stderr
        assert "file capabilities" in result.stderr
        assert subprocess.run([top / "mallograph", "-q", program], **options).returncode == 0
    finally:
        shutil.rmtree(top)


def test_no_agent(mallograph, tmp_path):
    shutil.copy(mallograph, tmp_path)
    result = subprocess.run([tmp_path / "mallograph", "true"], capture_output=True, text=True,
                            cwd=tmp_path)
    if result.returncode == 0:
        pytest.skip("an agent is installed")
    assert result.returncode == 125
    assert "agent is missing" in result.stderr and "make install" in result.stderr


@pytest.mark.parametrize("name", ["a b", "a:b"])
def test_a_path_that_cannot_be_preloaded(mallograph, agent, tmp_path, name):
    (tmp_path / name).mkdir()
    for file in mallograph, agent:
        shutil.copy(file, tmp_path / name)
    result = subprocess.run([tmp_path / name / "mallograph", "true"], capture_output=True,
                            text=True, cwd=tmp_path)
    assert result.returncode == 125
    assert "space or colon" in result.stderr.replace("\n            ", " ")


def test_an_old_kernel(run, sanitized):
    if sanitized or not shutil.which("strace"):
        pytest.skip("needs strace, and no sanitizer")
    result = run("true", text=True,
                 before=["strace", "-qq", "-o", "/dev/null", "-e", "inject=madvise:error=EINVAL"])
    assert result.returncode == 125
    assert "5.14" in result.stderr


def test_the_environment_that_does_not_fit(run):
    limit = 128 << 10
    result = run("-q", "true", env={"PATH": os.environ["PATH"], "LD_PRELOAD": ":" * (limit - 12)},
                 text=True)
    assert result.returncode == 126
    assert "Argument list too long" in result.stderr
    assert "LD_PRELOAD" in result.stderr and "ulimit -s" in result.stderr
