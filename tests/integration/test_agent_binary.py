"""The agent as a shared object: what it shows, what it needs, what it may never do."""

import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent


def readelf(agent, *options):
    done = subprocess.run(["readelf", "-W", *options, agent], check=True, capture_output=True,
                          text=True)
    return done.stdout


def listed(name):
    """The words of an allow-list; a line's first is the symbol, the rest says why."""
    lines = (HERE / name).read_text().splitlines()
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


@pytest.fixture(scope="module")
def symbols(agent):
    """(name without its version, section) of each dynamic symbol."""
    found = []
    for line in readelf(agent, "--dyn-syms").splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0].rstrip(":").isdigit():
            found.append((fields[7].split("@")[0], fields[6]))
    return found


def test_it_exports_its_interposers_alone(symbols):
    assert {name for name, section in symbols if section != "UND"} == listed("agent-exports.txt")


def test_it_uses_only_what_is_listed(symbols):
    assert {name for name, section in symbols if section == "UND"} <= listed("agent-undefined.txt")


def test_it_links_the_c_library_alone(agent):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(agent, "-d"))
    assert set(needed) <= {"libc.so.6", "ld-linux-x86-64.so.2"}


def test_an_older_c_library_loads_it(agent):
    """A child of a recorded program may bring its own, and would not start."""
    versions = re.findall(r"Name: GLIBC_([0-9.]+)", readelf(agent, "-V"))
    assert max([int(part) for part in v.split(".")] for v in versions) <= [2, 17]


def test_its_relocations_are_done_before_the_program_starts(agent):
    dynamic = readelf(agent, "-d")
    assert "TEXTREL" not in dynamic
    assert re.search(r"\(FLAGS(_1)?\).*NOW", dynamic)
    assert re.search(r"\(FLAGS_1\).*NODELETE", dynamic)


def test_its_segments(agent):
    segments = {}
    for line in readelf(agent, "-l").splitlines():
        fields = line.split()
        if fields and fields[0] in {"TLS", "GNU_STACK", "GNU_RELRO"}:
            segments[fields[0]] = (int(fields[5], 16), fields[6:-1])
    assert "GNU_RELRO" in segments
    assert "E" not in "".join(segments["GNU_STACK"][1])
    # Static TLS is a few hundred bytes shared by every library the program opens.
    size, _ = segments.get("TLS", (0, []))
    assert size <= 64


def test_it_has_no_initialised_variables(agent):
    """A page of them would be a mapping more to make at each start, and to copy at each fork."""
    sizes = re.findall(r" \.data +PROGBITS +\w+ +\w+ +(\w+)", readelf(agent, "-S"))
    assert [int(size, 16) for size in sizes] in ([], [0])


def test_no_general_dynamic_tls(agent):
    # __tls_get_addr may allocate: initial-exec leaves only TPOFF relocations.
    kinds = set(re.findall(r"R_X86_64_(\w*TP\w*|TLS\w*)", readelf(agent, "-r")))
    assert kinds <= {"TPOFF64"}
