"""Faults of searches for quantiles: edges that follow the records, records counted twice, rounds nobody pays for."""

from __future__ import annotations

import numpy as np

from audit.faults import Patch, fault
from sottovoce.inference.cells import searched_quantiles
from sottovoce.inference.cells.searched_quantiles import SearchedQuantiles
from sottovoce.mechanisms.integer_noise import IntegerNoise

CUTS, COST = (
    "a search cuts where released counts say, and nothing else",
    "rounds of a search cost together what is charged",
)
WHERE = "quantile search"


@fault("brackets taken from the true counts", WHERE, CUTS)
def _true_bracket(patch: Patch) -> None:
    """The next round is cut by counts without noise; those with noise are released."""
    honest = SearchedQuantiles.search

    def value(self, seen, rng, draws):
        rounds = []

        def counted(edges, scale):
            true = self._counts(seen, edges)
            rounds.append(self._round(IntegerNoise(self.noise, scale).add(true, rng), edges, scale))
            return self._round(true, edges, scale)

        quiet = honest(self, counted)
        return type(quiet)(self.system, self.n, self.noise, tuple(rounds))

    patch.setattr(SearchedQuantiles, "_value", value)


@fault("a cut at the true quantile", WHERE, CUTS)
def _true_quantile(patch: Patch) -> None:
    honest = SearchedQuantiles._value

    def value(self, seen, rng, draws):
        values = np.asarray(seen.records.columns[len(self.system.groups.names)], dtype=float)
        axis = self.system.value_axis
        middle = axis.low + axis.step * np.rint(
            (np.quantile(values.clip(axis.low, axis.high), 0.5) - axis.low) / axis.step
        )
        cut = searched_quantiles.next_edges

        def nearby(*given):
            edges = cut(*given)
            return np.unique(np.append(edges, np.clip(middle, edges[0], edges[-1])))

        with patch.context() as inner:
            inner.setattr(searched_quantiles, "next_edges", nearby)
            return honest(self, seen, rng, draws)

    patch.setattr(SearchedQuantiles, "_value", value)


@fault("a record counted in its cell and in the next", WHERE, COST)
def _twice(patch: Patch) -> None:
    honest = SearchedQuantiles._counts

    def counts(self, seen, edges):
        exact = honest(self, seen, edges)
        return exact + np.append(0, exact[:-1])

    patch.setattr(SearchedQuantiles, "_counts", counts)


@fault("the last round of a search at no charge", WHERE, COST)
def _unpaid(patch: Patch) -> None:
    honest = searched_quantiles._profile
    patch.setattr(searched_quantiles, "_profile", lambda noise, scales, relation: honest(noise, scales[:-1], relation))


@fault("a record replaced moves one count, not two", WHERE, COST)
def _one_count(patch: Patch) -> None:
    honest = searched_quantiles._profile

    def profile(noise, scales, relation):
        return honest(noise, [scale * (2 if noise == "laplace" else np.sqrt(2)) for scale in scales], relation)

    patch.setattr(searched_quantiles, "_profile", profile)
