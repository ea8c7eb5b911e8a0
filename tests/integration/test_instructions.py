"""Recording must not grow dearer unnoticed: instructions added to a malloc and free.

The baseline is bench/instructions.txt, written with `tests/integration/test_instructions.py
BUILD` whenever a change is worth its price.
"""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import measure  # noqa: E402

BASELINE = ROOT / "bench" / "instructions.txt"
DEPTHS = (5, 30)


def compiler():
    version = subprocess.run(["gcc", "-dumpversion"], check=True, capture_output=True, text=True)
    return version.stdout.strip().split(".")[0]


def added(build, depth):
    native, recorded = measure.instructions(build, depth)
    return recorded - native


def baseline():
    lines = [line.split() for line in BASELINE.read_text().splitlines() if line[0] != "#"]
    return {(gcc, int(depth)): float(count) for gcc, depth, count in lines}


@pytest.mark.parametrize("depth", DEPTHS)
def test_instructions_added_to_a_pair(build, depth, sanitized):
    if sanitized:
        pytest.skip("the agent is made to trap")
    known = baseline().get((compiler(), depth))
    if known is None:
        pytest.skip(f"no baseline for GCC {compiler()}")
    now = added(build, depth)
    assert now > 0, "nothing was recorded"
    assert now <= known * 1.1, f"{now:.1f} instructions a pair, {known:.1f} before"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    others = {key: count for key, count in baseline().items() if key[0] != compiler()}
    others |= {(compiler(), depth): added(build, depth) for depth in DEPTHS}
    lines = [f"{gcc} {depth} {count:.1f}\n" for (gcc, depth), count in sorted(others.items())]
    BASELINE.write_text("# GCC's major version, call depth, instructions added to a pair\n"
                        + "".join(lines))


if __name__ == "__main__":
    main()
