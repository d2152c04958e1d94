"""Measurements of mbi: what goes out comes back, and queries of coarse counts are what was counted."""

import sys
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.inference.synthesis.mbi_bridge import from_mbi, to_mbi
from sottovoce.inference.synthesis.noisy_marginal import NoisyMarginal
from sottovoce.inference.synthesis.table_columns import TableColumns
from sottovoce.inference.synthesis.table_posterior import TablePosterior
from sottovoce.privacy.errors import InvalidValue


@dataclass
class Measurement:
    """As mbi 2 has it."""

    noisy_measurement: Any
    clique: tuple[str, ...]
    stddev: float = 1.0
    query: Any = None


@pytest.fixture
def columns():
    facts = sv.Facts(a=sv.Flag(missing=False), b=sv.Category(["x", "y", "z"], missing="x"))
    return TableColumns(facts, {})


@pytest.fixture
def posterior(columns, monkeypatch):
    peer = types.ModuleType("mbi")
    peer.LinearMeasurement, peer.Domain = Measurement, lambda names, shape: dict(zip(names, shape, strict=True))
    monkeypatch.setitem(sys.modules, "mbi", peer)
    table = NoisyMarginal.of_table(("a", "b"), [[40, 30, 20], [5, 4, 1]], 9.0)
    coarse = NoisyMarginal(("b",), np.array([0, 1, 1]), np.array([44.0, 56.0]), np.array([4.0, 16.0]))
    return TablePosterior(columns, 100, (table, coarse))


def test_a_table_goes_out_and_comes_back(posterior, columns):
    domain, measurements = to_mbi(posterior)
    assert domain == {"a": 2, "b": 3}
    back = from_mbi(columns, 100, measurements[:1])
    assert back.marginals[0].counts.tolist() == posterior.marginals[0].counts.tolist()
    assert back.marginals[0].variance.tolist() == [9.0] * 6
    assert back.fit.means[0].sum() == pytest.approx(1)


def test_coarse_counts_have_a_query_in_units_of_their_noise(posterior):
    said = to_mbi(posterior)[1][1]
    factor = types.SimpleNamespace(datavector=lambda: np.array([45.0, 30.0, 25.0]))
    assert said.stddev == 1
    assert said.query(factor) == pytest.approx([45 / 2, 55 / 4])
    assert said.noisy_measurement == pytest.approx([44 / 2, 56 / 4])


def test_what_does_not_fit_is_refused(columns):
    with pytest.raises(InvalidValue, match="no column 'c'"):
        from_mbi(columns, 100, [Measurement([1, 2], ("c",))])
    with pytest.raises(InvalidValue, match="has 2 numbers"):
        from_mbi(columns, 100, [Measurement([1, 2], ("b",))])
    with pytest.raises(InvalidValue, match="no measurements"):
        from_mbi(columns, 100, [])
