"""Where the tests find what the build made: MALLOGRAPH_BUILD, or build/."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MALLOGRAPH_BUILD", ROOT / "build"))


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
def program(build):
    """program(name): a program of tests/programs."""
    return lambda name: build / "tests" / "programs" / name
