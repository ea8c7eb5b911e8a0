"""Servers, compilers and other languages' programs: they do what they did, and a second count of
the same run agrees to the last block."""

import os
import pathlib
import signal
import socket
import subprocess

import pytest

from oracle import wait_for
from programs_help import assert_plausible, counted_run, need, run, wait_for_socket

PROGRAMS = pathlib.Path(__file__).parents[1] / "programs"

SCRIPT = """
const zlib = require('zlib');
const kept = new Map();
for (let i = 0; i < 2000 * SCALE; i++) kept.set('key' + i, {number: i, text: String(i)});
const buffers = [];
for (let i = 0; i < 100; i++) buffers.push(Buffer.alloc(10000 + i, i));
const packed = zlib.deflateSync(Buffer.concat(buffers));
console.log(kept.size, packed.length, zlib.inflateSync(packed).length);
"""

NGINX = """
master_process off;
daemon off;
pid pid;
error_log stderr;
events { worker_connections 64; }
http {
  access_log off; log_not_found off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  gzip on; gzip_types text/plain;
  server { listen unix:socket; root .; types { text/plain txt; } }
}
"""


def redis(place, scale):
    """Under redis-benchmark, then asked what it holds and told to end."""
    benchmark, image = need("redis-benchmark", "redis-check-rdb")
    # One program by all its names; Debian's redis-tools has it without the one that serves.
    server, path = place / "redis-server", place / "socket"
    for old in (server, path):
        old.unlink(missing_ok=True)
    server.symlink_to(image)

    def drive(process):
        wait_for_socket(path, process)
        subprocess.run(
            [benchmark, "-s", path, "-q", "-n", str(2000 * scale), "-c", "20", "-d", "100",
             "-t", "set,get,incr,lpush,rpop,sadd,hset,zadd,mset"],
            check=True, capture_output=True, timeout=120)  # fmt: skip
        with socket.socket(socket.AF_UNIX) as client, client.makefile("rwb") as stream:
            client.connect(str(path))
            stream.write(b"DBSIZE\r\nLLEN mylist\r\nHLEN myhash\r\nGET key:__rand_int__\r\n"
                         b"SHUTDOWN NOSAVE\r\n")  # fmt: skip
            stream.flush()
            return stream.read()

    return [server, "--port", "0", "--unixsocket", path, "--save", "", "--dir", place], drive


def nginx(place, scale):
    """One process; answers zipped, plain, and for what is not there."""
    (server,) = need("nginx")
    page, path = place / "page.txt", place / "socket"
    # Once: the answers tell when it was last modified.
    if not page.exists():
        page.write_text("".join(f"{i * 7919 % 10007}\n" for i in range(20000)))
        (place / "nginx.conf").write_text(NGINX)

    def ask(what):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(f"GET /{what} HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n".encode())
            answer = client.makefile("rb").read()
        return [line for line in answer.split(b"\r\n") if not line.startswith(b"Date:")]

    def drive(process):
        wait_for_socket(path, process)
        heard = [ask(what) for _ in range(10 * scale) for what in ("page.txt", "x", "nginx.conf")]
        wait_for(lambda: (place / "pid").read_text().strip() != "")
        os.kill(int((place / "pid").read_text()), signal.SIGQUIT)
        return heard

    return [server, "-p", place, "-c", place / "nginx.conf"], drive


def node(place, scale):
    (place / "script.js").write_text(SCRIPT.replace("SCALE", str(scale)))
    return [*need("node"), "script.js"], None


def cc1plus(place, scale):
    """The compiler itself, not its driver; what it writes is what it wrote."""
    (driver,) = need("g++")
    source = place / "source.cc"
    headers = ("utility",) if scale == 1 else ("algorithm", "iostream", "map", "regex", "thread")
    source.write_text(
        "".join(f"#include <{header}>\n" for header in headers)
        + "int main(int count, char **) { int other = 0; std::swap(count, other);\n"
        "return count; }\n"
    )
    compiler = subprocess.run(
        [driver, "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return [compiler, "-quiet", "-O1", "-D_GNU_SOURCE", "-o", "-", source], None


def rust(place, scale):
    program = place / "keeper"
    if not program.exists():
        source = PROGRAMS / "languages" / "keeper.rs"
        subprocess.run([*need("rustc"), "-O", "-g", "-o", program, source], check=True)
    return [program, 2000 * scale], None


def go(place, scale):
    program = place / "callers"
    if not program.exists():
        build = ["env", "GO111MODULE=off", "GOTOOLCHAIN=local", "CGO_ENABLED=1",
                 f"GOCACHE={place}/cache", *need("go"), "build", "-o", program]  # fmt: skip
        subprocess.run([*build, PROGRAMS / "languages" / "callers.go"], check=True)
    return [program, 2000 * scale], None


# Compilers that are large, or slow the first time, are check-full's.
QUICK = [redis, nginx, node, cc1plus]
SLOW = [rust, go]
CASES = [
    *(pytest.param(program, 1, id=program.__name__) for program in QUICK),
    *(pytest.param(program, 10, id=f"{program.__name__}-long", marks=pytest.mark.slow)
      for program in [*QUICK, *SLOW]),
]  # fmt: skip


@pytest.mark.parametrize("program,scale", CASES)
def test_the_same_answers_and_the_same_counts(record, tmp_path, program, scale):
    command, drive = program(tmp_path, scale)
    before = run(command, tmp_path, drive)
    assert before.returncode == 0, before.stderr
    command, drive = program(tmp_path, scale)
    answer, profile, process = counted_run(record, command, tmp_path, drive)
    assert answer.returncode == 0
    # Not as operands of assert: pytest would take minutes to tell how they differ.
    heard = answer.heard == before.heard
    assert heard
    if program is not redis:
        said = (answer.stdout, answer.stderr) == (before.stdout, before.stderr)
        assert said
    assert process["end"] == {"kind": "exit", "code": 0}
    assert_plausible(process, profile.sites_of(process))


@pytest.mark.slow
@pytest.mark.parametrize(
    "program,sites",
    [
        (rust, ["keeper::words < keeper::main", "keeper::keep < keeper::main"]),
        (go, ["take < main.keep", "take < main.produce", "main.lengths < main.main.func"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_sites_are_called_after_the_program(record, tmp_path, program, sites):
    """Not after the language's library or its way to C; and every stack is whole."""
    command, _ = program(tmp_path, 1)
    path = record.new_paths()[0]
    run([record.tool, "-q", "-o", path, "--", *command], tmp_path)
    by_stack = [record.tool, "hist", "--by", "stack", "--sites", "all", path]
    text = subprocess.run(by_stack, capture_output=True, text=True, check=True).stdout
    for site in sites:
        assert f"\n{site}" in f"\n{text}", site
    summary = [record.tool, "report", "--summary", path]
    text = subprocess.run(summary, capture_output=True, text=True, check=True).stdout
    assert "NOT SEEN" not in text
