"""Which kind of formula a question is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.hazard_formula import HazardFormula
from sottovoce.inference.regression.ordinal_formula import OrdinalFormula
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping
from sottovoce.records.facts import Facts

__all__ = ["formula_of", "read_formula"]


def formula_of(text: str, facts: Facts, **asked: Any) -> Formula:
    """Return a regression by its formula: of hazards where an event is named, of odds ratios of an ordered response.

    >>> from sottovoce.records.facts import Category, Flag, Number
    >>> facts = Facts(days=Number(0, 360), died=Flag(), age=Number(18, 100), pain=Category(["none", "mild", "severe"]))
    >>> formula_of("days ~ age", facts, event="died").family, formula_of("died ~ age", facts).family
    ('hazard', 'logistic')
    >>> formula_of("pain ~ age", facts, family="ordinal").family
    'ordinal'
    """
    if asked.get("event") is not None:
        return HazardFormula(text, facts, **asked)
    for name in ("cuts", "start"):
        if asked.pop(name, None) is not None:
            raise InvalidValue(f"{name}= is of a hazard regression, which names its event: event='died'")
    asked.pop("event", None)
    return (OrdinalFormula if asked.get("family") == "ordinal" else Formula)(text, facts, **asked)


def read_formula(state: Mapping[str, Any]) -> Formula:
    """Read a formula of any kind from its plain values."""
    word = mapping("formula", state).get("system")
    return next((kind for kind in (HazardFormula, OrdinalFormula) if kind.word == word), Formula).from_dict(state)
