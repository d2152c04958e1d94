"""A question in words: ``mean of sbp by ward where age >= 40``."""

from __future__ import annotations

import re
from typing import Any

from sottovoce.answers.questions import VERBS
from sottovoce.privacy.errors import InvalidValue

__all__ = ["parse_question", "parse_spend"]

_NAME = r"(?:`[^`]+`|'[^']+'|\"[^\"]+\"|\b(?!and(?![\w.\-]))[^\W\d][\w.\-]*)"
_NAMES = rf"{_NAME}(?:(?:\s*,\s*|\s+and\s+){_NAME})*"
_GRAMMAR = re.compile(
    rf"""^\s*(?:(?P<pool>pooled)\s+)?(?P<verb>\w+)\s*(?P<at>[\d.]+(?:\s*,\s*[\d.]+)*)?\s*(?:of\s+)?
    (?P<columns>{_NAMES})
    (?:\s+per\s+(?P<exposure>{_NAME}))?
    (?:\s+by\s+(?P<by>{_NAMES}))?
    (?:\s+where\s+(?P<where>.+?))?\s*$""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_SAME = {"count": "counts", "quantile": "quantiles", "median": "quantiles", "average": "mean", "share": "proportion"}


def parse_question(text: str) -> dict[str, Any]:
    """Return the verb, the columns and the rest of a question in words.

    The grammar: ``[pooled] VERB [PROBABILITIES] of COLUMNS [per EXPOSURE] [by COLUMNS] [where CONDITION]``. A name
    that is no identifier, or is ``and``, stands in quotes or backticks, which a shell takes for a command of its own.

    >>> parse_question("mean of sbp by ward and sex where age >= 40")
    {'verb': 'mean', 'columns': ('sbp',), 'by': ('ward', 'sex'), 'where': 'age >= 40'}
    >>> parse_question("quantiles 0.1, 0.9 of `blood pressure`")
    {'verb': 'quantiles', 'columns': ('blood pressure',), 'at': (0.1, 0.9)}
    """
    found = _GRAMMAR.match(text) if isinstance(text, str) else None
    verb = found["verb"].lower() if found else ""
    known = _SAME.get(verb, verb)
    if found is None and isinstance(text, str) and "~" in text:
        raise InvalidValue(f"a formula is planned by `plan` and asked by `regress`, not as a question. Got {text!r}")
    if found is None or known not in VERBS:
        raise InvalidValue(
            f"a question reads like 'mean of sbp by ward where age >= 40', with one of {', '.join(VERBS)}, and names "
            f"of several words in quotes. Got {text!r}"
        )
    asked: dict[str, Any] = {"verb": known, "columns": _names(found["columns"])}
    if found["at"]:
        asked["at"] = tuple(_probability(part) for part in found["at"].split(","))
    elif known == "quantiles":
        asked["at"] = (0.5,) if verb == "median" else (0.25, 0.5, 0.75)
    if found["exposure"]:
        asked["exposure"] = _names(found["exposure"])[0]
    if found["by"]:
        asked["by"] = _names(found["by"])
    if found["where"]:
        asked["where"] = found["where"]
    if found["pool"]:
        asked["pool"] = True
    return asked


def parse_spend(text: str) -> float | str:
    """Return a share such as ``5%`` or ``0.05`` as a number; a promise such as ``approx:0.1,1e-6`` as it is.

    >>> parse_spend("5%"), parse_spend("0.1")
    (0.05, 0.1)
    """
    if ":" in text:
        return text
    try:
        share = float(text.removesuffix("%").strip()) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        raise InvalidValue(
            f"say a share such as 5% or 0.05, or a promise such as approx:0.1,1e-6. Got {text!r}"
        ) from None
    if not 0 < share <= 1:
        raise InvalidValue(f"a share of the budget, such as 5% or 0.05, lies above 0 and at most 1. Got {text!r}")
    return share


def _names(text: str) -> tuple[str, ...]:
    found = re.findall(_NAME, text, re.IGNORECASE)
    return tuple(name[1:-1] if name[0] in "`'\"" else name for name in found)


def _probability(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidValue(f"quantiles are probabilities such as 0.25. Got {text.strip()!r}") from None
