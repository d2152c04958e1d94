"""What is read of records: exact sums, no more moved than one record may, and no record that fails."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.audit.check_reading import ODD
from sottovoce.audit.checks.result import check, verdict
from sottovoce.inference.latent.fields import Bounded, Field
from sottovoce.mechanisms import DirectPosterior
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.mechanisms.conjugate.exact_posteriors import exact_total
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import ClassMoments
from sottovoce.theory.local import ProfileGraph
from sottovoce.theory.local.mechanism import ProfileMechanism

__all__ = ["moments", "odd_records", "row_sums", "sums"]

_BOUNDS = ((1e9, 1e9 + 1), (-1e13, -1e13 + 0.5), (0.1, 0.3), (-1e100, 1e100), (0.0, 1e-100))
_N = 1001


@check("one record moves a sum by no more than its width")
def sums() -> tuple[bool, str]:
    """Sums, and samples that share their randomness, of neighbours within far-off bounds, in exact fractions."""
    problems, pairs = [], 0
    for low, high in _BOUNDS:
        width = Fraction(high) - Fraction(low)
        system = NormalMean(1.0, 1e6, prior_mean=low, bounds=(low, high))
        rest = (low + seeded_rng(3).random(_N - 1) * (high - low)).tolist()
        ends = [system.statistics([x, *rest]) for x in (low, high)]
        if system.statistics([*rest[::-1], low]) != ends[0]:
            problems.append(f"within {low} and {high} a sum depends on the order of its records")
        one, other = (exact_total(end)[0] for end in ends)
        moved = abs(one - other)
        if moved > width:
            problems.append(f"within {low} and {high} a record moves the sum by {float(moved / width):.3g} widths")
        pairs += 1
    # The law of a mean near 10⁹, of which a double has no digits left: its centre moves by no more than 1/n of a width.
    low, high = 1e9, 1e9 + 0.3
    mechanism = DirectPosterior(NormalMean(1e-4, 1e6, prior_mean=low, bounds=(low, high)), 20_000)
    most = (Fraction(high) - Fraction(low)) / mechanism.n
    for rest in np.linspace(low, high, 7):
        column = np.full(mechanism.n, rest)
        centres = []
        for column[0] in (low, high):
            centres.append(mechanism.law(mechanism.see(column)).centre)
        if not most / 2 < abs(centres[1] - centres[0]) <= most:
            share = float(abs(centres[1] - centres[0]) / most)
            problems.append(f"near {low:g} a record moves a mean of {mechanism.n} by {share:.4g} of its share")
    return verdict(problems, f"{pairs} pairs of neighbours within far-off bounds, none moved by more than its width")


@check("bounded numbers move their moments no more than is claimed")
def moments() -> tuple[bool, str]:
    """Every pair of values and classes, against the sensitivity that the noise is made for."""
    problems, pairs = [], 0
    for low, high in (*_BOUNDS, (1e16, 1e16 + 2), (1e15, 1e15 + 0.125)):
        reading = ClassMoments((0, 1), (), (0,), ((low, high),))
        movement = reading.blocks(1)[-1].movement
        values = [*(low + np.linspace(0, 1, 9) * (high - low)).tolist(), math.nextafter(low, high), math.inf, math.nan]
        read = [reading.split(reading.read([[k], [x]]).total)[1][0].ravel().tolist() for x in values for k in (0, 1)]
        gaps = [[p - q for p, q in zip(a, b, strict=True)] for a in read for b in read]
        pairs += len(gaps)
        shares = (
            max(sum(map(abs, gap)) for gap in gaps) / float(movement.total or 0),
            max(sum(x * x for x in gap) for gap in gaps) / movement.squares,
        )
        if max(shares) > 1:
            problems.append(f"within {low} and {high} a record moves {max(shares):.3g} times what is claimed")
    return verdict(problems, f"{pairs} pairs of records, none beyond the claim")


@check("no record makes a reading fail")
def odd_records() -> tuple[bool, str]:
    """One odd record among sound ones: the question is answered, and the others count as before."""
    problems, cases = [], 0
    numbers = (
        BetaBernoulli(1, 1),
        GammaPoisson(1, 1, 5),
        GammaExponential(1, 1, 5.0),
        NormalMean(1, 1, bounds=(-1, 3)),
    )
    graph = ProfileGraph.bernoulli({"a": 0.4, "b": 0.6}, [("a", "b")])
    still = ProfileMechanism(graph, 1.0, np.full((2, 2, 2), 2**52))
    for odd in ODD:
        readers: list[tuple[str, Any]] = [
            *((system.word, system.statistics) for system in (*numbers, DirichletCategorical([1.0, 1.0]))),
            ("field", Field("f", (0, 1)).codes),
            ("bounded", Bounded("b", 0, 1).centred),
            ("profiles", lambda column: still.release(column, "a", seeded_rng(1)).value),
        ]
        for name, read in readers:
            cases += 1
            try:
                read([1, odd, 0])
            except Exception as error:
                problems.append(f"{name}: a {type(odd).__name__} raises {type(error).__name__}")
    return verdict(problems, f"{cases} odd records read")


@check("matrices whose rows do not sum to one are refused")
def row_sums() -> tuple[bool, str]:
    """2,049 certain outputs at once sum to one in 64 bits; whoever adds so believes them."""
    size = 2049
    graph = ProfileGraph({"a": {0: 1.0}}, [], range(size))
    try:
        ProfileMechanism(graph, 0.0, np.full((1, size, size), 2**53))
    except InvalidValue:
        return verdict([], "refused")
    return verdict(["a row of 2,049 certain outputs passed for a probability"], "")
