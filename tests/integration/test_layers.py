"""Who may include whom, and where third-party headers may appear."""

import re

import pytest

# A layer may always include itself. The agent is held to one file of the ledger.
ALLOWED = {
    "base": set(),
    "ledger": {"base"},
    "agent": {"ledger/layout.h"},
    "symbols": {"base"},
    "store": {"base"},
    "leaks": {"base", "ledger"},
    "attach": {"base", "ledger"},
    "collect": {"base", "ledger", "symbols", "leaks", "attach", "store"},
    "analyze": {"base", "ledger", "store", "symbols"},
    "report": {"base", "analyze"},
    "cli": {
        "base", "ledger", "symbols", "store", "leaks", "attach", "collect", "analyze", "report",
    },
}

THIRD_PARTY = [
    (r"elfutils/.*|libelf\.h|gelf\.h|dwarf\.h|libdw.*", "symbols/"),
    (r"libiberty/.*|demangle\.h", "symbols/"),
    (r"sqlite3.*\.h", "store/"),
    (r"n?curses(w?/.*|\.h)|panel\.h", "report/tui"),
]

# What the agent could not use by its rules has no business being declared there. (stdio.h
# declares popen, which it hooks; what it calls is test_agent_binary.py's concern.)
NOT_IN_AGENT = {"pthread.h", "threads.h", "locale.h", "wchar.h", "syslog.h", "err.h",
                "error.h", "setjmp.h", "semaphore.h", "iconv.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1] == '"', match[2]


def sources(root):
    return sorted(p for p in (root / "src").rglob("*") if p.suffix in {".c", ".h", ".S"})


def layer_of(root, path):
    return path.relative_to(root / "src").parts[0]


def test_every_layer_is_known(root):
    assert {layer_of(root, path) for path in sources(root)} <= set(ALLOWED)


def test_own_headers_follow_the_arrows(root):
    wrong = []
    for path in sources(root):
        layer = layer_of(root, path)
        for number, own, name in includes(path):
            if not own:
                continue
            near = path.parent / name
            target = near if near.is_file() else root / "src" / name
            where = f"{path.relative_to(root)}:{number}: {name}"
            if not target.is_file():
                wrong.append(f"{where}: no such header")
                continue
            target = target.resolve().relative_to((root / "src").resolve())
            if target.parts[0] != layer and not {target.parts[0], str(target)} & ALLOWED[layer]:
                wrong.append(f"{where}: {layer} may not include {target.parts[0]}")
    assert wrong == []


def test_the_layout_depends_on_nothing(root):
    headers = {name for _, _, name in includes(root / "src/ledger/layout.h")}
    assert headers <= {"stdatomic.h", "stddef.h", "stdint.h"}


def test_third_party_headers_stay_in_one_place(root):
    wrong = []
    for path in sources(root):
        inside = str(path.relative_to(root / "src"))
        for number, _, name in includes(path):
            for pattern, home in THIRD_PARTY:
                if re.fullmatch(pattern, name) and not inside.startswith(home):
                    wrong.append(f"src/{inside}:{number}: {name} belongs in {home}")
    assert wrong == []


def test_the_agent_includes_nothing_it_may_not_use(root):
    wrong = [
        f"{path.name}:{number}: {name}"
        for path in sources(root)
        if layer_of(root, path) == "agent"
        for number, _, name in includes(path)
        if name in NOT_IN_AGENT
    ]
    assert wrong == []


@pytest.mark.parametrize("call", ["exit", "abort", "printf", "puts", "perror"])
def test_only_cli_prints_or_exits(root, call):
    # base/log.c is the one mouth of the tool's own log.
    pattern = re.compile(rf"(?<![\w.>]){call}\s*\(")
    wrong = [
        f"{path.relative_to(root)}:{number}"
        for path in sources(root)
        if layer_of(root, path) not in {"cli"} and path.name != "log.c"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line.split("/*")[0].split("//")[0]) and not line.startswith((" *", "/*", "\t *"))
    ]
    assert wrong == []
