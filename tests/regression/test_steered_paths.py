"""Whatever a path of looks is steered by, no pair of records moves a look by more than is paid for it.

What looks let out is made up here: sums of counts with a long tail, and numbers no table could give, which lead later
looks anywhere. All looks that were taken are then tried with pairs of records that differ in every extreme way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.budget_allocation import TAILS
from sottovoce.inference.regression.floating_sums import quick_sums
from sottovoce.inference.regression.formula import Formula
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.readings import Look
from sottovoce.records.readings.in_memory_records import as_columns

Shown = Callable[[Look, Mapping[str, float]], Any]
NUMBERS = {"x": [-6.0, 6.0, 0.3, 1e308, float("-inf"), float("nan"), None], "w": [0.5, 1e5, 3.0, -1e308, None]}
LEVELS = {"g": ["a", "b", "c", "elsewhere", None], "f": [False, True, None]}
ODD: list[Any] = [0, 1, 2.5, -3, 10**9, 1e308, float("inf"), float("-inf"), float("nan"), None]
TEXTS = ["k ~ x", "k ~ 1", "k ~ 0 + g", "k ~ x + g + f", "k ~ x*g", "k ~ w + (1 | g)", "k ~ 0 + x"]


def steered(kind: str, mechanism: AdaptiveLooks, rng: np.random.Generator) -> Shown:
    """Return what shows totals of a kind."""
    table = rng.negative_binomial(0.3, 0.05, 400).astype(float), rng.uniform(-1, 1, 400)

    def shown(look: Look, scales: Mapping[str, float]) -> Any:
        noise = np.array([scales[name.removesuffix(" off")] for name, k in look.sizes.items() for _ in range(k)])
        if kind == "records":
            rows = np.zeros((400, look.encoding.size))
            rows[:, 0], rows[:, -1] = 1.0, table[1]
            times = (mechanism.n or 400) / 400
            return times * quick_sums(look, rows, look.model.outcome(table[0])) + noise * rng.standard_normal(look.size)
        if kind == "high":
            return np.abs(rng.standard_normal(look.size)) * 1e30
        return rng.standard_normal(look.size) * 10 ** rng.uniform(-3, 18, look.size)

    return shown


def given(look: Look, records: list[tuple[Any, ...]]) -> np.ndarray:
    """Return what each record adds to a look, a row each."""
    *some, last = as_columns(look.columns, look.arranged(records))
    (rows, known), y = look.encoding.rows(some, len(last)), look.model.outcome(last)
    known = known & ~np.isnan(y)
    w, (u,) = look.contributions(np.where(known[:, None], rows, 0.0), np.where(known, y, 0.0))
    above, parts = np.triu_indices(look.dimension, 1), []
    for part in look.parts:
        if part == "score":
            parts.append(w)
            continue
        one = u if part == "information" else w
        parts += [one * one, one[:, above[0]] * one[:, above[1]]]
    return np.concatenate(parts, axis=1)


def test_what_each_record_gives_adds_up_to_the_look() -> None:
    look = Formula("k ~ x + g", Facts(k=Count(9), x=Number(-6, 6), g=Category(("a", "b"))), "poisson").look(40)
    records = list(itertools.product(NUMBERS["x"], ["a", "b", None], [0, 3, 12, None]))
    whole = look.read(look.arranged(records)).total
    np.testing.assert_array_equal(given(look, records).sum(axis=0), whole)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["records", "wild", "high"])
def test_no_pair_of_records_moves_a_look_farther_than_is_paid_for(kind: str) -> None:
    rng, far = np.random.default_rng([3, len(kind), ord(kind[0])]), 0
    sizes, facts = (
        itertools.cycle([5_000, 10**9, None, 7, 1]),
        {"x": Number(-6, 6), "w": Number(0.5, 1e5), "g": Category(("a", "b", "c")), "f": Flag()},
    )
    for text, high, rho in zip(TEXTS, [1_000, 3, 10**6, 2, 300, 1, 60], [1.0, 0.05, 1e6, 1e-6] * 2, strict=False):
        n = next(sizes)
        formula = Formula(text, Facts(k=Count(high), **facts), "poisson")
        mechanism = AdaptiveLooks(formula, n, rho)
        looks: list[tuple[Look, dict[str, float]]] = []
        show = steered(kind, mechanism, rng)

        def shown(look: Look, scales: Mapping[str, float], show: Shown = show, looks: Any = looks) -> Any:
            looks.append((look, dict(scales)))
            return show(look, scales)

        found = mechanism.conclude(mechanism.walk(shown))
        assert not np.any(np.isnan(found.interval()))
        assert sum(mechanism.paid(look, scales) for look, scales in looks) <= rho
        cuts = {int(cut) for look, _ in looks for cut in (look.model.most, look.beyond)}  # type: ignore[attr-defined]
        counts = [*ODD, high + 1, *{cut + off for cut in cuts for off in (-1, 0, 1)}]
        rows = list(itertools.product(*((NUMBERS | LEVELS)[name] for name in formula.columns[:-1])))
        rows = [rows[k] for k in rng.permutation(len(rows))[:6]] + [rows[0]]
        records = [(*row, count) for row in rows for count in counts]
        whole = np.zeros((len(records), len(records)))
        for look, scales in looks:
            pairs = zip(mechanism.noises(look, scales), look.sizes.values(), strict=True)
            each = given(look, records) / np.concatenate([np.full(size, one.scale) for one, size in pairs])
            squares = (each * each).sum(axis=1)
            moved = squares[:, None] + squares - 2 * each @ each.T if n else np.tile(squares, (len(records), 1))
            assert moved.max() / 2 <= mechanism.paid(look, scales) * (1 + 1e-9)
            if look.beyond:
                far += 1
                assert mechanism.paid(look, scales) <= rho * TAILS[0]
            whole += moved
        assert whole.max() / 2 <= rho
    assert far >= 2 * (kind == "records")


@pytest.mark.parametrize("text", ["k ~ x", "z ~ x", "f ~ x"])
def test_what_is_too_noisy_for_a_later_look_is_refused_before_it_is_paid_for(text: str) -> None:
    facts = Facts(k=Count(20), z=Number(-5, 5), f=Flag(), x=Number(0, 1))
    at = np.linspace(0, 1, 100)
    records = {"k": np.arange(100) % 5, "z": 2 * at, "f": at > 0.5, "x": at}
    made = 0
    for rho in np.geomspace(1e-15, 1e-11, 17):
        try:
            mechanism = AdaptiveLooks(Formula(text, facts), 100, float(rho))
        except InvalidValue:
            assert made == 0
            continue
        made += 1
        for seed in range(3):
            mechanism.release(records, seeded_rng(seed))
    assert made > 2
