"""Instructions of a pair of malloc and free, counted by single-stepping (bench/steps.c), so
that two runs agree on any machine.

The agent runs without a collector, into a ledger that is thrown away.
"""

import os
import subprocess
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
