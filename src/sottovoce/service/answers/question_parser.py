"""A question in words: ``mean of sbp by ward where age >= 40``."""

from __future__ import annotations

import re
from typing import Any

from sottovoce.inference.cells.question_checks import OVER_TIME, WITH_SEASON
from sottovoce.inference.cells.question_reading import VERBS
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.privacy.shares import percent_meant, read_share
from sottovoce.records.facts.bands import BANDS
from sottovoce.records.facts.column_names import NAME, unquoted

_FLAGS = re.VERBOSE | re.IGNORECASE | re.DOTALL
# Each part is read in one way, and never gone back on: no text takes long.
_GROUP = rf"(?>{NAME}(?:\s*+:\s*+{BANDS})?+)"
_NEXT = r"(?:\s*+,\s*+|\s++and\s++)"
_GROUPS = rf"{_GROUP}(?:{_NEXT}{_GROUP})*+"
_NUMBER = r"(?>[0-9]++(?:\.[0-9]*+)?+(?:[eE][-+]?[0-9]++)?+)"
_GRAMMAR = re.compile(
    rf"""\s*+(?:(?P<pool>pooled(?:\s++over\s++(?:time|seasons))?+|smooth)\s++)?+(?P<verb>\w++)\s*+(?P<at>[\d.]++%?+(?:\s*+,\s*+[\d.]++%?+)*+)?+\s*+(?:of\s++)?+
    (?P<columns>{NAME}(?:{_NEXT}{NAME})*+)
    (?:\s*+\(\s*+event\s++(?P<event>{NAME})\s*+\))?+
    (?:\s++(?:at\s++(?P<times>{_NUMBER}(?:\s*+,\s*+{_NUMBER})*+)|in\s++(?P<cells>[0-9]{{1,9}}+)\s++cells?\b))?+
    (?:\s++(?:per|(?P<to>to))\s++(?P<per>{_GROUPS}))?+
    (?:\s++(?:by|for\s++each|in\s++each)\s++(?P<by>{_GROUPS}))?+
    (?:\s++where\s++(?P<where>\S.*+))?+\s*+""",
    _FLAGS,
)
_SPREAD = re.compile(r"\s*+standard\s++deviations?+(?=\s)", re.IGNORECASE)
_RATIO = re.compile("ratios?$")
_HOW_MANY = re.compile(r"\s*(?:how\s+many|number\s+of|counts?\s+by)\b", re.IGNORECASE)
_BANDED = "; bands read like by age: under 18, 18-64, 65+"
_SURVIVAL = "'survival of days (event died) at 30, 90, 365 by ward'"
_SAME = {
    **dict.fromkeys(("means", "average", "averages"), "mean"),
    **dict.fromkeys(
        ("proportions", "share", "shares", "percentage", "percent", "fraction", "prevalence"), "proportion"
    ),
    **dict.fromkeys(("totals", "sum", "sums"), "total"),
    **dict.fromkeys(("sds", "std"), "sd"),
    **dict.fromkeys(("quantile", "quartiles", "median", "medians"), "quantiles"),
    **dict.fromkeys(("rates", "ratio", "ratios"), "rate"),
    "count": "counts",
}
"""Other words for the verbs, of which nobody means anything else."""


def parse_question(text: str) -> dict[str, Any]:
    """Return the verb, the columns and the rest of a question in words.

    The grammar: ``[pooled [over time|over seasons]|smooth] VERB [PROBABILITIES] of COLUMNS [(event FLAG)] [at TIMES]
    [per|to EXPOSURE] [by GROUPS] [where CONDITION]``; an event and times (or ``in 24 cells``) are those of survival. A
    name that is no identifier, or is ``and``, stands in quotes or backticks, which shells take for commands.
    A group is a column, or bands of one: ``age: under 18, 18-64, 65+``, ``age: 12 bands``. Of all verbs but a rate,
    ``per`` means ``by``, as ``for each`` and ``in each`` do; ``average``, ``percentage`` and the like are verbs too.

    >>> parse_question("mean of sbp by ward and sex where age >= 40")
    {'verb': 'mean', 'columns': ('sbp',), 'by': ('ward', 'sex'), 'where': 'age >= 40'}
    >>> parse_question("mean of sbp by age: under 18, 18-64, 65+ and ward")["by"]
    ('age: under 18, 18-64, 65+', 'ward')
    >>> parse_question("average sbp per ward") == parse_question("mean of sbp by ward")
    True
    >>> parse_question("ratio of cost to days") == parse_question("rate of cost per days")
    True
    >>> parse_question("standard deviation of sbp") == parse_question("sd of sbp")
    True
    >>> parse_question("quantiles 0.1, 0.9 of `blood pressure`")
    {'verb': 'quantiles', 'columns': ('blood pressure',), 'at': (0.1, 0.9)}
    >>> parse_question("survival of days (event died) at 30, 90 by ward")
    {'verb': 'survival', 'columns': ('days',), 'event': 'died', 'cuts': (30.0, 90.0), 'by': ('ward',)}
    """
    result = _GRAMMAR.fullmatch(_SPREAD.sub("sd", text, count=1)) if isinstance(text, str) else None
    verb = result["verb"].lower() if result else ""
    known = _SAME.get(verb, verb)
    if result is None and isinstance(text, str) and "~" in text:
        raise InvalidValue(
            f"a formula is planned by `plan` and asked by `regress`, not as a question. Got {shown(text)}"
        )
    if known not in VERBS and isinstance(text, str) and _HOW_MANY.match(text):
        raise InvalidValue(
            f"how many there are is asked by the columns to tell them apart, as in 'counts of ward and sex' or "
            f"'counts of ward where age >= 40'. Got {shown(text)}"
        )
    if result is None or known not in VERBS:
        bands = _BANDED if re.search("[:+]", str(text)) else ""
        raise InvalidValue(
            f"a question reads like 'mean of sbp by ward where age >= 40', with one of {', '.join(VERBS)}, and names "
            f"of several words in quotes, as in 'mean of \"blood pressure\"'{bands}. Got {shown(text)}"
        )
    asked: dict[str, object] = {"verb": known, "columns": _names(result["columns"])}
    if result["at"]:
        asked["at"] = tuple(_probability(part) for part in result["at"].split(","))
    elif known == "quantiles":
        asked["at"] = (0.5,) if verb in ("median", "medians") else (0.25, 0.5, 0.75)
    asked |= _survival(known, result)
    groups = parse_groups(result["by"]) if result["by"] else ()
    of_two = result["to"] or _RATIO.match(verb)
    if of_two and not (result["per"] and known == "rate"):
        raise InvalidValue(f"a ratio is of one column to another, as in 'ratio of cost to days'. Got {shown(text)}")
    if result["per"]:
        per = parse_groups(result["per"])
        if known == "rate" and len(per) > 1:
            raise InvalidValue(f"a rate is per one column; groups follow the word by. Got per {result['per']}")
        if known == "rate":
            asked["exposure"] = per[0]
        groups = groups if known == "rate" else (*per, *groups)
    if groups:
        asked["by"] = groups
    if result["where"]:
        asked["where"] = result["where"].rstrip()
    if pooled := (result["pool"] or "").lower():
        over = {"time": OVER_TIME, "seasons": WITH_SEASON}.get(pooled.split()[-1], True)
        asked |= {"tails": "smooth"} if pooled == "smooth" else {"pool": over}
    return asked


def _survival(verb: str, read: re.Match[str]) -> dict[str, object]:
    """Return what is said of an event, and of the times to tell of."""
    if verb != "survival":
        if read["event"] or read["times"] or read["cells"]:
            raise InvalidValue(f"an event and times go with survival, as in {_SURVIVAL}. Got {shown(read.string)}")
        return {}
    if not read["event"]:
        raise InvalidValue(f"survival names its event, as in {_SURVIVAL}. Got {shown(read.string)}")
    said: dict[str, object] = {"event": unquoted(read["event"])}
    if read["times"]:
        said["cuts"] = tuple(float(item) for item in read["times"].split(","))
    elif read["cells"]:
        said["cuts"] = int(read["cells"])
    return said


def parse_groups(text: str) -> tuple[str, ...]:
    """Return the groups that a text names, one after the other; what reads like none is left as it is.

    >>> parse_groups("age: under 18, 18-64, 65+, ward"), parse_groups("age: old")
    (('age: under 18, 18-64, 65+', 'ward'), ('age: old',))
    """
    if not re.fullmatch(_GROUPS, text, _FLAGS):
        return (text,)
    return tuple(unquoted(group[0]) for group in re.finditer(_GROUP, text, _FLAGS))


def parse_spend(text: str) -> float | str:
    """Return a share such as ``5%`` or ``0.05`` as a number; a promise such as ``approx:0.1,1e-6`` as it is.

    >>> parse_spend("5%"), parse_spend("0.1")
    (0.05, 0.1)
    """
    if ":" in text:
        return text
    try:
        share = read_share("spend", text)
    except InvalidValue:
        raise InvalidValue(
            f"say a share such as 5% or 0.05, or a promise such as approx:0.1,1e-6. Got {text!r}"
        ) from None
    if not 0 < share <= 1:
        raise InvalidValue(
            f"a share of the budget, such as 5% or 0.05, lies above 0 and at most 1. Got {text!r}{percent_meant(share)}"
        )
    return share


def _names(text: str) -> tuple[str, ...]:
    return tuple(map(unquoted, re.findall(NAME, text, _FLAGS)))


def _probability(text: str) -> float:
    return read_share("a quantile", text)
