"""Post-processing keeps the promise, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.theory.local import ProfileGraph, RandomizedResponse, SmoothCategorical, post_processed

GRAPH = ProfileGraph.chain({"a": [0.2, 0.3, 0.5], "b": [0.4, 0.3, 0.3], "c": [0.6, 0.3, 0.1]}, "xyz")
COARSE = {"x": "edge", "y": "middle", "z": "edge"}


def test_merged_outputs_add_up_and_keep_the_promise(broken):
    fine = SmoothCategorical.calibrate(GRAPH, 0.3)
    coarse = post_processed(fine, COARSE)
    assert coarse.outputs == ("edge", "middle")
    assert np.array_equal(coarse.steps[:, :, 0], fine.steps[:, :, 0] + fine.steps[:, :, 2])
    assert coarse.guarantee == fine.guarantee
    assert broken(coarse) == []
    assert np.all(coarse.edge_losses() <= fine.edge_losses() + 1e-12)


def test_it_releases_what_renaming_the_release_gives():
    fine = SmoothCategorical.calibrate(GRAPH, 0.3)
    coarse = post_processed(fine, {y: y for y in "xyz"})
    records = ["x", "y", "z"] * 200
    same = [m.release(records, "b", seeded_rng(1)).value.tolist() for m in (fine, coarse)]
    assert same[0] == same[1]


def test_local_stays_local_and_gaps_are_named():
    local = RandomizedResponse.calibrate(GRAPH, 0.3)
    assert post_processed(local, COARSE).guarantee.local
    with pytest.raises(InvalidValue, match="no new name for the output 'z'"):
        post_processed(local, {"x": 1, "y": 2})
