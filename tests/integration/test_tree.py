"""The tree holds sources, short ones, and nothing of the machine they were written on."""

import re
import subprocess

import pytest

BUILT = {".o", ".a", ".so", ".pyc", ".su", ".ci", ".mgl", ".mgp", ".gcda", ".gcno"}
TEXT_ONLY = re.compile(
    # Home and scratch directories, container roots.
    r"/home/(?!USER)\w+|/root/|/work/|/private/|/Users/"
    # Package mirrors and registries by host: the system's own configuration names them.
    r"|https?://[\w.-]*(?:pypi|npmjs|crates\.io|deb\.debian|archive\.ubuntu|snapshot\.debian|docker\.io)"
    # Addresses of one network.
    r"|\b(?:10|172\.(?:1[6-9]|2\d|3[01])|192\.168)\.\d+\.\d+(?:\.\d+)?\b"
)


@pytest.fixture(scope="module")
def tracked(root):
    names = subprocess.run(
        ["git", "-C", root, "ls-files", "-co", "--exclude-standard"],
        check=True, capture_output=True, text=True,
    ).stdout.splitlines()
    return [root / name for name in names if (root / name).is_file()]


def test_nothing_built_is_kept(tracked):
    assert [str(p) for p in tracked if p.suffix in BUILT] == []


def test_files_are_text_and_small(tracked):
    wrong = []
    for path in tracked:
        data = path.read_bytes()
        if b"\0" in data or len(data) > 200_000:
            wrong.append(path.name)
    assert wrong == []


def test_no_machine_is_named(root, tracked):
    wrong = []
    for path in tracked:
        if path.name == "test_tree.py":
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if match := TEXT_ONLY.search(line):
                wrong.append(f"{path.relative_to(root)}:{number}: {match[0]}")
    assert wrong == []


def test_source_files_are_short_or_say_why(root, tracked):
    wrong = []
    for path in tracked:
        if path.suffix not in {".c", ".h", ".S", ".cc", ".py"}:
            continue
        text = path.read_text()
        if text.count("\n") > 600 and "Long because" not in text[:2000]:
            wrong.append(f"{path.relative_to(root)}: {text.count(chr(10))} lines")
    assert wrong == []


def test_headers_open_with_a_comment(root, tracked):
    assert [
        str(p.relative_to(root)) for p in tracked
        if p.suffix == ".h" and not p.read_text().startswith("/*")
    ] == []


def test_nothing_is_left_for_later(root, tracked):
    words = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    assert [
        f"{p.relative_to(root)}:{n}" for p in tracked if p.name != "test_tree.py"
        for n, line in enumerate(p.read_text(errors="replace").splitlines(), 1)
        if words.search(line)
    ] == []
