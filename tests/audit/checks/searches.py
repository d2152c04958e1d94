"""Searches for quantiles: where a round cuts follows from released counts alone, and each round costs what it says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sottovoce.audit.checks.result import check, verdict
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.searched_quantiles import SearchedQuantiles
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Number

__all__ = ["charges", "cuts"]

_FACTS = Facts(x=Number(0, 10), k=Count(30), ward=Category(("A", "B")))
_VALUES: dict[str, tuple[Any, ...]] = {"x": (-1.0, 0.0, 2.5, 2.6, 5.0, 9.9, 10.0, 99.0), "k": (0, 1, 2, 15, 29, 30, 31)}
_N = 40
_WRITTEN = 7.0
"""Counts that are written in the place of noisy ones are about so large: of 40 records many cells have none."""
_EPSILONS = (0.01, 0.1, 0.5, 1.0)


def _searches() -> Iterator[SearchedQuantiles]:
    for column, by, kind in itertools.product(("x", "k"), ((), ("ward",)), ("gaussian", "laplace")):
        question = Question("quantiles", (column,), _FACTS, by=by, at=(0.25, 0.5))
        for n in (_N, None):
            yield SearchedQuantiles(question, n, kind, 9.0)  # type: ignore[arg-type]


def _table(search: SearchedQuantiles, values: Any) -> dict[str, Any]:
    wards = ["A" if k % 3 else "B" for k in range(len(values))]
    return {"ward": wards, search.system.columns_asked[0]: list(values)}


@check("a search cuts where released counts say, and nothing else")
def cuts() -> tuple[bool, str]:
    """Unlike tables whose noise is written so that they release the same counts: all edges must be the same."""
    problems, rounds = [], 0
    for search in _searches():
        name = search.system.columns_asked[0]
        rng = np.random.default_rng(4)
        tables = [_table(search, rng.choice(_VALUES[name], _N)) for _ in range(3)]
        tables += [_table(search, [_VALUES[name][end]] * _N) for end in (0, -1)]
        with pytest.MonkeyPatch.context() as patch:
            seen = []
            for table in tables:
                patch.setattr(IntegerNoise, "add", _same_counts())
                released = search.release(table, seeded_rng(1)).value
                seen.append([round_.to_dict() for round_ in released.rounds])
        rounds += len(seen[0])
        if any(other != seen[0] for other in seen[1:]):
            problems.append(
                f"{search.system.describe()}: the same counts were released, and another table cuts elsewhere"
            )
    return verdict(problems, f"{rounds} rounds, each the same for five tables that show the same counts")


def _same_counts() -> Any:
    """Return what shows the same noisy counts whatever the true ones are: only how many there are is kept."""
    rng = np.random.default_rng(9)
    return lambda self, counts, given: rng.poisson(_WRITTEN, np.shape(counts)).astype(np.int64)


@check("rounds of a search cost together what is charged")
def charges() -> tuple[bool, str]:
    """What one record moves in every round of a path, over all pairs of values it may hold, against the claim."""
    problems, spent = [], []
    for search in _searches():
        name = search.system.columns_asked[0]
        kept = [_VALUES[name][0]] * (_N - 1)
        tables = [_table(search, [value, *kept]) for value in _VALUES[name]] if search.n else []
        tables += [] if search.n else [_table(search, kept), *(_table(search, [*kept, v]) for v in _VALUES[name])]
        counts = [[search._counts(search.see(table), edges) for edges, _ in search.path] for table in tables]
        pairs = itertools.combinations(counts, 2) if search.n else ((counts[0], more) for more in counts[1:])
        worst = max(_cost(search, first, other) for first, other in pairs)
        claim = search.profile
        if search.noise == "laplace":
            spent.append(worst / claim.pure())
        else:
            exact = GaussianProfile(math.sqrt(worst))
            spent.append(max(float(exact.delta(e)) / float(claim.delta(e)) for e in _EPSILONS))
        if spent[-1] > 1 + 1e-9:
            problems.append(f"{search.system.describe()}: {search.noise} rounds cost {spent[-1]:.4g} of the claim")
    if max(spent) < 0.99:
        problems.append(f"no pair comes near the claim, {max(spent):.3g} of it at most")
    return verdict(problems, f"{len(spent)} searches, at most {max(spent):.4f} of the claim is spent")


def _cost(search: SearchedQuantiles, first: Any, other: Any) -> float:
    """Return ε of Laplace rounds, or μ² of Gaussian ones: what moves, by the noise that is on it."""
    scales = [scale for _, scale in search.path]
    moved = [np.abs(np.subtract(a, b)) for a, b in zip(first, other, strict=True)]
    if search.noise == "laplace":
        return sum(float(part.sum()) / scale for part, scale in zip(moved, scales, strict=True))
    return sum(float(np.square(part).sum()) / scale**2 for part, scale in zip(moved, scales, strict=True))
