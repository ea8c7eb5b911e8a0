"""Debug files from debuginfod servers: only where DEBUGINFOD_URLS is set, and never for long."""

import http.server
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

import symbols_help
from symbols_help import Program, build_id, need
from test_doctor import Answer


class Server:
    """Serves files by build-id, and remembers what it was asked for."""

    def __init__(self):
        self.files = {}
        self.asked = []
        self.endless = False  # no end, nor word of one
        self.chunks = None  # None: at once; else (bytes, seconds between)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                match = re.fullmatch(r"/buildid/(\w+)/debuginfo", self.path)
                outer.asked.append(match and match[1])
                data = outer.files.get(match and match[1])
                if data is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                if not outer.endless:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                size, pause = outer.chunks or (len(data), 0)
                while outer.endless:
                    try:
                        self.wfile.write(bytes(1 << 16))
                    except OSError:
                        return
                try:
                    for at in range(0, len(data), size):
                        self.wfile.write(data[at:at + size])
                        self.wfile.flush()
                        time.sleep(pause)
                except OSError:
                    pass

            def log_message(self, *words):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def program(tmp_path):
    """Stripped; its debug file is not found by any search."""
    (tmp_path / "p").mkdir()
    program = Program(tmp_path / "p")
    program.debug = program.separate(tmp_path / "aside" / "debug")
    program.id = build_id(program.path)
    return program


@pytest.fixture
def asking(run, tmp_path):
    """The tool with servers to ask, whose answers are kept in a place of the test's own."""

    def ask(url, *words, env={}, **options):
        return run(*words, text=True, env={**os.environ, "DEBUGINFOD_URLS": url,
                                           "DEBUGINFOD_CACHE_PATH": str(tmp_path / "kept"), **env}, **options)

    ask.available = has_library()
    if not ask.available:
        pytest.skip("libdebuginfod is not installed")
    return ask


def has_library():
    return "libdebuginfod.so.1" in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout


def lines(run, *words):
    report = json.loads(run("report", "--json", *words).stdout)
    return {frame["function"]: frame["line"] for site in report["sites"] for frame in site["stack"]
            if frame["module"].endswith("/program") and frame["line"]}


EXPECTED = {"hidden": 6, "shown": 10, "main": 14}


def test_a_file_a_server_has(run, asking, program, server):
    server.files[program.id] = program.debug.read_bytes()
    done = asking(server.url, "-o", "x.mgp", program.path)
    assert done.returncode == 0
    assert lines(run, "x.mgp") == EXPECTED
    assert server.asked.count(program.id) == 1
    told = [line for line in done.stderr.splitlines() if "fetched" in line]
    size = f"{len(server.files[program.id]) / 1024:.1f}"
    assert told == [f"mallograph: fetched debug information of program ({size} KiB)"]
    assert "program:" not in done.stderr.partition("SYMBOLS")[2]
    # Kept, it is not asked for again; nor is anything told.
    done = asking(server.url, "-o", "y.mgp", program.path)
    assert lines(run, "y.mgp") == EXPECTED
    assert server.asked.count(program.id) == 1 and "fetched" not in done.stderr


def test_only_where_DEBUGINFOD_URLS_is_set_and_not_with_no_debuginfod(run, asking, program, server):
    server.files[program.id] = program.debug.read_bytes()
    run("-q", "-o", "x.mgp", program.path)
    asking("", "-q", "-o", "x.mgp", program.path)
    asking(server.url, "-q", "--no-debuginfod", "-o", "x.mgp", program.path)
    asking(server.url, "-q", "--no-symbols", "-o", "x.mgl", program.path)
    asking(server.url, "report", "--no-debuginfod", "x.mgl")
    assert server.asked == [] and lines(run, "x.mgp") == {}


def test_quiet_is_quiet_and_a_ledger_asks_when_it_is_read(run, asking, program, server):
    server.files[program.id] = program.debug.read_bytes()
    done = asking(server.url, "-q", "-o", "x.mgl", program.path)
    assert done.stderr == "" and program.id not in server.asked
    done = asking(server.url, "report", "--json", "x.mgl")
    assert program.id in server.asked and "fetched debug information of program" in done.stderr
    assert "hidden" in done.stdout


def test_what_is_found_here_is_not_asked_for(asking, program, server, tmp_path):
    place = program.by_build_id(program.id)
    place.parent.mkdir(parents=True)
    shutil.copy(program.debug, place)
    asking(server.url, "-q", "-o", "x.mgp", "--debug-dir", program.root, program.path)
    assert program.id not in server.asked


def test_no_server_has_it(run, asking, program, server):
    done = asking(server.url, "-o", "x.mgp", program.path)
    assert done.returncode == 0 and "debuginfod:" not in done.stderr
    info = " ".join(run("info", "x.mgp", text=True).stdout.split())
    assert "debuginfod: no server has it" in info
    answer = Answer(asking(server.url, "doctor", program.path).stdout)
    level, tries, _ = answer.modules[str(program.path)]
    assert level == "symtab"
    assert f"server    buildid/{program.id}/debuginfo: not there" in answer.text


@pytest.mark.parametrize("content, outcome", [
    (b"hello", "not an ELF file"), (None, "of another build-id"),
])
def test_what_a_server_has_is_checked(run, asking, program, server, tmp_path, content, outcome):
    if content is None:
        (tmp_path / "o.c").write_text("int main(void) { return 1; }")
        symbols_help.run("gcc", "-g", "-Wl,--build-id", tmp_path / "o.c", "-o", tmp_path / "o")
        content = (tmp_path / "o").read_bytes()
    server.files[program.id] = content
    asking(server.url, "-q", "-o", "x.mgp", program.path)
    assert lines(run, "x.mgp") == {}
    assert outcome.replace(" ", "") in "".join(run("info", "x.mgp", text=True).stdout.split())
    answer = Answer(asking(server.url, "doctor", program.path).stdout)
    assert re.search(rf"server +/.*: {outcome}", answer.text)


def test_a_dwz_file_a_server_has(run, asking, program, server, tmp_path):
    need("dwz")
    symbols_help.run("gcc", "-g", "-O1", "-rdynamic", "-Wl,--build-id", "-DOTHER", program.source,
                     "-o", tmp_path / "other")
    common = tmp_path / "aside" / "common"
    symbols_help.run("dwz", "-m", common, "-M", "/nowhere/common", "--odr", program.debug,
                     tmp_path / "other")
    server.files[program.id] = program.debug.read_bytes()
    server.files[build_id(common)] = common.read_bytes()
    asking(server.url, "-q", "-o", "x.mgp", program.path)
    assert lines(run, "x.mgp") == EXPECTED
    assert set(server.files) <= set(server.asked)
    info = run("info", "x.mgp", text=True).stdout
    assert "missing" not in info.partition("/p/program")[2].partition("\n\n")[0]


@pytest.fixture
def silent():
    """A server that accepts and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def test_a_server_that_never_answers(run, asking, program, silent, tmp_path):
    """The report ends within the limit, and says so; nothing further is asked."""
    begun = time.monotonic()
    done = asking(silent, "-o", "x.mgp", program.path, env={"DEBUGINFOD_TIMEOUT": "2"})
    # The limit once, not for each module.
    assert done.returncode == 0 and 2 <= time.monotonic() - begun < 10
    text = " ".join(done.stderr.split())
    assert re.search(r"fetching debug information of \S+ mallograph: debuginfod: \S+: "
                     "the servers do not answer", text)
    assert text.count("debuginfod: ") == 1 and "PEAK" in text
    info = " ".join(run("info", "x.mgp", text=True).stdout.split())
    assert "debuginfod: the servers do not answer" in info
    assert not left_over(tmp_path)


def left_over(tmp_path):
    """What libdebuginfod had begun to keep of files."""
    return [path for path in (tmp_path / "kept").glob("*/debuginfo.*")]


def test_a_file_without_an_end(run, asking, program, server, tmp_path):
    """It must not fill the disk, in one run or in many."""
    server.files[program.id] = b""
    server.endless = True
    begun = time.monotonic()
    done = asking(server.url, "-o", "x.mgp", program.path,
                  env={"DEBUGINFOD_MAXSIZE": "10000000", "DEBUGINFOD_MAXTIME": "20"})
    assert done.returncode == 0 and "PEAK" in done.stderr
    assert time.monotonic() - begun < 30
    assert not left_over(tmp_path)
    assert lines(run, "x.mgp") == {}


def test_a_file_that_takes_too_long_is_not_left(asking, program, server, tmp_path):
    server.files[program.id] = b""
    server.endless = True
    done = asking(server.url, "-o", "x.mgp", program.path, env={"DEBUGINFOD_MAXTIME": "1"})
    assert done.returncode == 0
    assert not left_over(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_tool_is_ended_while_it_fetches(asking, mallograph, program, server, tmp_path, number):
    server.files[program.id] = b""
    server.endless = True
    asking("", "-q", "-o", "x.mgl", program.path)
    with subprocess.Popen([mallograph, "report", "x.mgl"], cwd=tmp_path,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**os.environ, "DEBUGINFOD_URLS": server.url,
                               "DEBUGINFOD_CACHE_PATH": str(tmp_path / "kept")}) as tool:
        for _ in range(200):
            if left_over(tmp_path):
                break
            time.sleep(0.05)
        assert left_over(tmp_path)
        tool.send_signal(number)
    for _ in range(100):
        if not left_over(tmp_path):
            break
        time.sleep(0.05)
    assert not left_over(tmp_path)


def test_a_server_that_drips(run, asking, program, server):
    server.files[program.id] = bytes(1 << 20)
    server.chunks = 100, 0.2
    begun = time.monotonic()
    done = asking(server.url, "-o", "x.mgp", program.path, env={"DEBUGINFOD_MAXTIME": "3"})
    assert done.returncode == 0 and time.monotonic() - begun < 10
    assert "the servers take too long" in " ".join(done.stderr.split())


def test_no_server_there(run, asking, program):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
    done = asking(url, "-o", "x.mgp", program.path)
    assert done.returncode == 0
    assert "no server can be reached" in " ".join(done.stderr.split())


def test_no_answer_is_not_remembered(run, asking, program, server, tmp_path):
    """A cache of names must not keep what a server may have tomorrow."""
    env = {"MALLOGRAPH_CACHE": "on", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    asking(server.url, "-q", "-o", "x.mgp", program.path, env=env)
    assert lines(run, "x.mgp") == {}
    server.files[program.id] = program.debug.read_bytes()
    shutil.rmtree(tmp_path / "kept")
    asking(server.url, "-q", "-o", "y.mgp", program.path, env=env)
    assert lines(run, "y.mgp") == EXPECTED


def test_progress_on_a_terminal(asking, mallograph, program, server, tmp_path):
    server.files[program.id] = program.debug.read_bytes()
    server.chunks = len(server.files[program.id]) // 4, 0.3
    asking("", "-q", "-o", "x.mgl", program.path)
    master, slave = pty.openpty()
    with subprocess.Popen([mallograph, "report", "--json", "x.mgl"], cwd=tmp_path, stderr=slave,
                          stdout=subprocess.DEVNULL,
                          env={**os.environ, "DEBUGINFOD_URLS": server.url, "TERM": "xterm",
                               "DEBUGINFOD_CACHE_PATH": str(tmp_path / "kept")}):
        os.close(slave)
        text = b""
        try:
            while data := os.read(master, 4096):
                text += data
        except OSError:
            pass
    os.close(master)
    text = text.decode()
    assert re.search(r"\rmallograph: fetching debug information of program, [\d.]+ KiB of [\d.]+ KiB, \d s\x1b\[K", text)
    assert "\r\x1b[Kmallograph: fetched" in text
    # Once a line is over written, what stands there is what came last.
    shown = [line.rpartition("\r")[2].replace("\x1b[K", "") for line in text.split("\r\n")]
    assert [line for line in shown if line][-1].endswith("KiB)")


def test_the_server_of_elfutils(run, asking, program, tmp_path):
    need("debuginfod")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(["debuginfod", "-p", str(port), "-d", str(tmp_path / "db"), "-t", "1", "-F",
                           str(tmp_path / "aside")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**os.environ, "HOME": str(tmp_path)}) as daemon:
        try:
            until = time.monotonic() + 30
            while lines(run, "x.mgp") != EXPECTED if (tmp_path / "x.mgp").exists() else True:
                # It scans when it has started; what it says before is not kept for long.
                assert time.monotonic() < until, "debuginfod did not find the file"
                shutil.rmtree(tmp_path / "kept", ignore_errors=True)
                asking(f"http://127.0.0.1:{port}/", "-q", "-o", "x.mgp", program.path)
        finally:
            daemon.terminate()
