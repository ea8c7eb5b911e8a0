"""What recording adds to a pair of malloc and free: instructions and nanoseconds.

Instructions are counted by single-stepping (bench/steps.c), so two runs agree; times
are the best of many rounds, native and recorded in turn, and mean something only on a
quiet machine. The agent runs without a collector, into a ledger that is thrown away.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

# One batch of allocation numbers, so that taking a batch is counted once.
PAIRS = 64


def run(build, command, recorded):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOGRAPH_")}
    command = [str(part) for part in command]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        if recorded:
            environment["LD_PRELOAD"] = str(build / "libmallograph-agent.so")
            environment["MALLOGRAPH_OUT"] = f"{scratch}/%p.mgl"
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        if recorded and not os.listdir(scratch):
            raise RuntimeError("nothing was recorded")
    return float(done.stdout)


def instructions(build, depth):
    """(native, recorded) instructions a pair at a call depth."""
    command = [build / "bench/steps", build / "bench/pairs", depth, PAIRS]
    return tuple(run(build, command, recorded) / PAIRS for recorded in (False, True))


def nanoseconds(build, depth):
    """(native, recorded) nanoseconds a pair at a call depth."""
    command = [build / "bench/pairs", depth, 1000, 0.5]
    pairs = [[run(build, command, recorded) for recorded in (False, True)] for _ in range(5)]
    return tuple(min(column) for column in zip(*pairs))


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    print("depth  instructions: native  added     ns: native  added")
    for depth in (5, 30, 100):
        native, recorded = instructions(build, depth)
        native_ns, recorded_ns = nanoseconds(build, depth)
        print(f"{depth:5}  {native:20.1f}  {recorded - native:5.1f}"
              f"  {native_ns:10.1f}  {recorded_ns - native_ns:5.1f}")


if __name__ == "__main__":
    main()
