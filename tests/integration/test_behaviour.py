"""A program does the same recorded as bare: behaviour.py compares, behaviour_cases.py is the table
of programs. What differs for good reasons is listed in behaviour.py and docs/AGENT-RULES.md."""

import dataclasses
import pathlib
import shutil
import subprocess
import tempfile

import pytest

import behaviour
import behaviour_cases
from programs_help import need

# Who of several threads or processes comes first is chance: the calls recorded are to be those of
# one of so many bare runs. All else is compared with the first.
ROUNDS = 5


@pytest.fixture(scope="module")
def harness(mallograph, agent):
    need("strace")
    if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode:
        pytest.skip("nobody may be traced here")
    # Not below pytest's folder: strace cuts long lines.
    folder = pathlib.Path(tempfile.mkdtemp())
    runtime = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield behaviour.Harness(mallograph, agent, folder, runtime, behaviour_cases.prepare)
    shutil.rmtree(folder)
    shutil.rmtree(runtime)


def prepared(case, build, harness):
    case = case.for_build(build)
    if not case.there(harness.environment["PATH"]):
        pytest.skip(f"{case.program} is not here")
    return case


def assert_same(harness, case, bare, recorded):
    found = behaviour.differences(bare, recorded, case)
    if found:
        again = harness.run(case, traced=case.traced)
        varies = behaviour.differences(bare, again, case)
        pytest.fail("\n".join(
            [*found, *(["what varies in any case, and is not in the table:", *varies] if varies else [])]
        ), pytrace=False)  # fmt: skip


def assert_same_calls(harness, case, bare, recorded):
    """Runs more where they are not."""
    left_out = case.without
    for _ in range(ROUNDS):
        if any(behaviour.same_calls(one, recorded, left_out) for one in bare):
            return
        bare.append(harness.run(case))
        recorded = harness.run(case, recorded=True)
    nearest = min(bare, key=lambda one: len(behaviour.call_differences(one, recorded, left_out)))
    found = behaviour.call_differences(nearest, recorded, left_out)
    pytest.fail("\n".join(["calls differ:", *found[:60]]), pytrace=False)


def cases(tier):
    return [
        pytest.param(case, id=case.name, marks=[] if case.core else pytest.mark.slow)
        for case in tier
    ]


@pytest.mark.parametrize("case", cases(behaviour_cases.CASES))
def test_the_same_bare_and_recorded(harness, build, case, sanitized):
    case = prepared(case, build, harness)
    if sanitized and behaviour_cases.OURS == case.scrub:
        # Its runtime handles a signal that make ignores.
        case = dataclasses.replace(case, scrub=(*case.scrub, rb"status SigIgn:.*"))
    bare = harness.run(case, traced=case.traced)
    direct = harness.run(case, recorded=True, traced=False)
    assert_same(harness, case, bare, direct)
    if not case.traced:
        return
    recorded = harness.run(case, recorded=True)
    assert_same(harness, case, bare, recorded)
    assert recorded.own["session"] > 0, "nothing was recorded"
    assert_same_calls(harness, case, [bare], recorded)


@pytest.mark.slow
def test_a_hundred_programs_are_here(harness):
    """Of the table; those that are not were skipped."""
    path = harness.environment["PATH"]
    programs = {case.program for case in behaviour_cases.CASES if "{" not in case.command}
    here = {program for program in programs if shutil.which(program, path=path)}
    assert len(here) >= 100, f"{len(here)} of {len(programs)}"


def test_names_are_told_apart():
    names = [case.name for case in behaviour_cases.CASES]
    assert len(names) == len(set(names))


PAIR = behaviour_cases.Case("pair", "sh -c 'read a < words; echo $a'")
OTHER = {
    "stdout": "sh -c 'read a < numbers; echo $a'",
    "status": "sh -c 'read a < words; echo $a; exit 3'",
    "file made": "sh -c 'read a < words; echo $a; : > made'",
    "file words": "sh -c 'read a < words; echo $a; chmod 600 words'",
}


@pytest.mark.parametrize("what", OTHER)
def test_differences_are_seen(harness, what):
    other = behaviour_cases.Case("other", OTHER[what])
    runs = [harness.run(PAIR), harness.run(other, recorded=True)]
    assert what in "\n".join(behaviour.differences(*runs, PAIR))
    assert not behaviour.same_calls(*runs, {})


@pytest.mark.parametrize("command", ["sh -c 'exec 5<words; echo $a'", "sh -c 'umask 7; echo $a'",
                                     "sh -c 'trap : USR1; echo $a'", "sh -c 'echo $a $(:)'"])
def test_differences_in_calls_alone_are_seen(harness, command):
    bare = behaviour_cases.Case("bare", "sh -c 'echo $a'")
    runs = [harness.run(bare), harness.run(behaviour_cases.Case("other", command), recorded=True)]
    assert behaviour.differences(*runs, bare) == []
    assert not behaviour.same_calls(*runs, {})


def test_calls_of_the_agent_that_are_not_listed_are_seen(harness, monkeypatch):
    monkeypatch.delitem(behaviour.OWN_CALLS, "getcwd")
    runs = [harness.run(PAIR), harness.run(PAIR, recorded=True)]
    assert "recorded only  1x getcwd" in "\n".join(behaviour.call_differences(*runs, {}))


def test_a_descriptor_the_agent_left_open_is_seen(harness, monkeypatch):
    monkeypatch.delitem(behaviour.OWN_CALLS, "close")
    faults = harness.run(PAIR, recorded=True).faults
    assert [fault for fault in faults if "left open" in fault]
