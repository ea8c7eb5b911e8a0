"""Where the tests find what the build made: MALLOGRAPH_BUILD, or build/."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

import oracle

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Taken out, so that the programs recorded have nothing of ours in their environment.
BUILD = pathlib.Path(os.environ.pop("MALLOGRAPH_BUILD", ROOT / "build")).resolve()
# No test depends on what an earlier version of the tool found, nor leaves anything at home.
CACHE = tempfile.TemporaryDirectory(prefix="mallograph-cache-")
os.environ["XDG_CACHE_HOME"] = CACHE.name

# Tests ask no servers but their own.
os.environ.pop("DEBUGINFOD_URLS", None)


@pytest.fixture(scope="session")
def root():
    """The source tree."""
    return ROOT


@pytest.fixture(scope="session")
def build():
    """The build directory: build/mallograph, build/tests/programs/NAME."""
    return BUILD


@pytest.fixture(scope="session")
def mallograph(build):
    """The tool."""
    return build / "mallograph"


@pytest.fixture(scope="session")
def agent(build):
    """The agent."""
    return build / "libmallograph-agent.so"


@pytest.fixture(scope="session")
def sanitized(mallograph):
    """Whether the tool has a sanitizer's allocator and is slower for it."""
    return re.search(rb"__[at]san_init", mallograph.read_bytes()) is not None


@pytest.fixture(scope="session")
def own_runtime(mallograph):
    """What the thread sanitizer's runtime does not bear, or does itself in every process: a write
    of its own to a file, a handler of signal 33, another sanitizer beside it."""
    if b"__tsan_init" in mallograph.read_bytes():
        pytest.skip("the thread sanitizer comes first")


@pytest.fixture(scope="session")
def may_preload(sanitized):
    """What the tool may not be run with where a sanitizer must come first: a preload."""
    if sanitized:
        pytest.skip("a sanitizer must come first")


@pytest.fixture(scope="session")
def program(build):
    """program(name): a program of tests/programs."""
    return lambda name: build / "tests" / "programs" / name


@pytest.fixture(scope="session")
def cc(tmp_path_factory):
    """cc(name, source, *flags): a small C program, compiled once."""
    directory = tmp_path_factory.mktemp("cc")

    def compile_one(name, source, *flags):
        path = directory / name
        if not path.exists():
            (directory / f"{name}.c").write_text(source)
            subprocess.run(
                ["cc", "-g", "-D_GNU_SOURCE", "-o", path, directory / f"{name}.c", *flags],
                check=True,
            )
        return path

    return compile_one


@pytest.fixture
def runtime():
    """A session directory of the test's own: XDG_RUNTIME_DIR, in shared memory."""
    path = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def run(mallograph, runtime, tmp_path):
    """run(*words, before=[], **subprocess.run's): the tool in tmp_path; bytes unless text=True."""

    def run_tool(*words, env=None, **options):
        options.setdefault("cwd", tmp_path)
        options.setdefault("timeout", 60)
        return subprocess.run(
            [*options.pop("before", []), mallograph, *words], capture_output=True,
            env={**(os.environ if env is None else env), "XDG_RUNTIME_DIR": str(runtime)},
            **options,
        )

    return run_tool


@pytest.fixture
def record(build, tmp_path, sanitized):
    """Runs test programs recorded; see oracle.py."""
    return oracle.Recorder(build, tmp_path, sanitized)


@pytest.fixture(scope="session")
def in_namespace():
    """in_namespace(script, *words, env=, cwd=): sh with mounts of its own, where that can be."""
    private = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    if subprocess.run([*private, "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace")
    return lambda script, *words, env, cwd: subprocess.run(
        [*private, "sh", "-c", script, "sh", *map(str, words)], env=env, cwd=cwd,
        capture_output=True, text=True, timeout=60)
