"""A C library without _dl_find_object: what depends on that, once more with an agent that does not
find it."""

import pytest

import oracle
from test_faults_hotpath import (  # noqa: F401
    test_loader_and_throws_and_allocations_at_once,
    test_reloaded_libraries,
    test_stacks_that_are_gone,
)
from test_frames import test_every_kind_of_frame  # noqa: F401
from test_hooks_dl import (  # noqa: F401
    compare,
    library,
    test_each_plugin_reaches_its_own_operator_new,
)


@pytest.fixture
def record(build, tmp_path, sanitized):
    recorder = oracle.Recorder(build, tmp_path, sanitized)
    recorder.tool = build / "tests/plain/mallograph"
    return recorder
