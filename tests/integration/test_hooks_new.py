"""operator new where the allocator brings its own, and when it throws."""

import pytest

ALLOCATORS = ("", "libjemalloc.so.2", "libtcmalloc_minimal.so.4")


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_a_new_that_throws_leaves_everything_in_order(record, allocator):
    run = record.run("throws", env={"LD_PRELOAD": allocator} if allocator else {})
    if "cannot be preloaded" in run.stderr:
        pytest.skip(f"{allocator} is not here")
    assert run.said["thrown"] == 400
    assert run.root["failed"] == 401
    sums = run.report.by_function(run.root)
    for kind in ("new", "new_array", "aligned_new", "aligned_new_array"):
        if allocator:
            mine = sums[f"_ZL{len('by_' + kind)}by_{kind}m"]
            assert (mine["allocations"], mine["frees"], mine["live_bytes"]) == (101, 100, 700)
    called = {site["function_called"] for site in run.report.sites_of(run.root)}
    kinds = {"new", "new[]", "aligned new", "aligned new[]"}
    assert called & kinds == (kinds if allocator else set())
    assert run.root["losses"] == []
