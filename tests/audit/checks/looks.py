"""Looks of a regression: by brute force over pairs of records, none moves them farther than the noise is made for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from sottovoce.audit.checks.result import check, verdict
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.formula import Formula
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.readings import Look
from sottovoce.records.readings.in_memory_records import as_columns

__all__ = ["movements", "shares"]

_SQUARE = Encoding(("a", "b"), (Number(-1, 1), Number(-1, 1)), (((0, -1),), ((1, -1),)))
_RESPONSES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "logistic": (Flag(), (False, True)),
    "probit": (Flag(), (False, True)),
    "linear": (Number(-1, 1), (-1.0, 1.0)),
    "poisson": (Count(6), (0, 6)),
    "multinomial": (Category(("a", "b", "c")), ("a", "b", "c")),
}
_CUTS: dict[str, tuple[dict[str, float], ...]] = {
    "linear": ({}, {"cap": 0.5}, {"cap": 1.2, "beyond": 0.4}),
    "poisson": ({}, {"extra": 0.8}),
}
"""What is cut, and taken to vary."""
_PARTS = (("score",), ("information",), ("meat",), ("score", "information", "meat"))
_LOOSEST = 0.9
"""Some pair comes as near as this to each claim."""


def _records(labels: tuple[Any, ...]) -> list[tuple[float, float, Any]]:
    angles = np.linspace(0, 2 * np.pi, 33)[:-1]
    points = [(r * math.cos(a), r * math.sin(a)) for r in (0.3, 0.6, 1.0) for a in angles]
    return [(x, y, label) for x, y in [*points, (1.0, 1.0), (-1.0, 1.0)] for label in labels]


def _looks(family: str) -> Iterator[Look]:
    centres: list[tuple[tuple[float, ...], int]] = [((0.0, 0.0), 12), ((1.2, -0.9), 12), ((0.0, 2.5), 3)]
    if family == "multinomial":  # both predictors alike, and opposed
        centres = [(centre * 2, bits) for centre, bits in centres] + [((8.0, 0.0, -8.0, 0.0), 12)]
    for centre, bits in centres:
        shape = ((1.0, 0.0), (0.0, 1.0))
        for cut in _CUTS.get(family, ({},)):
            yield Look(_SQUARE, _RESPONSES[family][0], family, centre, shape, 0.6, bits, _PARTS[-1], **cut)


def _read(look: Look, records: list[tuple[Any, ...]]) -> dict[str, Floats]:
    """Return each part of a look at each record, a matrix with all its entries."""
    columns = as_columns(look.columns, list(zip(*records, strict=True)))
    rows, _ = look.encoding.rows(columns[:-1], len(records))
    w, roots = look.contributions(rows, look.model.outcome(columns[-1]))
    squares = {"information": roots, "meat": [w]}
    each = {part: sum(np.einsum("ri,rj->rij", u, u) for u in squares[part]) for part in squares}
    return {"score": w} | {part: np.reshape(found, (len(records), -1)) for part, found in each.items()}


def _alone(look: Look, records: list[tuple[Any, ...]], each: dict[str, Floats]) -> bool:
    """Say whether a look of some parts reads of all records, and of one alone, what one of every part has of each."""
    for some in (slice(None), slice(0, 1), slice(-1, None)):
        found = look.split(look.read(list(zip(*records[some], strict=True))).total)
        if not all(np.array_equal(found[part].ravel(), each[part][some].sum(axis=0)) for part in look.parts):
            return False
    return True


@check("no record moves a look farther than its noise is made for")
def movements() -> tuple[bool, str]:
    """All pairs of some records, short, long and opposite, against the claim for each part and for all together."""
    problems, pairs = [], 0
    for family, (_, labels) in _RESPONSES.items():
        records, nearest = _records(labels), dict.fromkeys(_PARTS, 0.0)
        for whole in _looks(family):
            one, each = 2.0**whole.bits, _read(whole, records)
            for parts in _PARTS:
                look, name = replace(whole, parts=parts), " and ".join(parts)
                scales = {part: one if part == "score" else 2 * one**2 for part in parts}
                moved = np.concatenate([each[part] / scales[part] for part in parts], axis=1)
                share = float(pdist(moved).max()) / look.joint(scales)
                nearest[parts] = max(nearest[parts], share)
                pairs += len(records) ** 2
                if share > 1:
                    problems.append(f"{family}: a record moves {name} by {share:.3g} of the claim")
                if not _alone(look, records, each):
                    problems.append(f"{family}: {name} asked alone is another sum")
        if family == "multinomial":  # its information reaches its longest at no centre of these
            del nearest["information",]
        if family in ("logistic", "multinomial") and min(nearest.values()) < _LOOSEST:
            problems.append(f"{family}: no pair comes near the claim, {min(nearest.values()):.3g} of it at most")
        if problems:
            break
    return verdict(problems, f"{pairs} pairs of records, none beyond the claim")


@check("looks cost together what is charged")
def shares() -> tuple[bool, str]:
    """The noise of every look along a path, against the ρ that is claimed for all of them."""
    problems, spent = [], []
    facts = Facts(y=Flag(), z=Number(-1, 1), k=Count(6), a=Number(-1, 1), b=Number(-1, 1))
    for text in ("y ~ a + b", "z ~ a + b", "k ~ a + b"):
        mechanism = AdaptiveLooks(Formula(text, facts), 60, 0.7)
        cost = sum(mechanism.paid(look, scales) for look, scales in mechanism.path)
        spent.append(cost / mechanism.profile.zcdp())
        if spent[-1] > 1:
            problems.append(f"{text} costs {spent[-1]:.3g} of what it claims")
    return verdict(problems, f"{max(spent):.3f} of the claim is spent")
