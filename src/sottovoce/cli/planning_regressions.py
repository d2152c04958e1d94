"""`sottovoce plan "smoker ~ age"`: the looks that `regress` would take, and how wide its intervals will be."""

from __future__ import annotations

from sottovoce.answers import parse_spend
from sottovoce.cli.console import console, emit, escape, number, table
from sottovoce.facts import Category, Column, Facts, Flag
from sottovoce.facts.imagined import Imagined
from sottovoce.mechanisms.expected import cautions
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.regression import AdaptiveLooks, Formula
from sottovoce.regression.foreseen import Foreseen, foresee, rarely

__all__ = ["plan_formula", "plan_regression"]


_LUCK = 1.5
"""Where noise may make an interval so many times as wide as in the middle, the plan says how wide."""
_ALIKE = (
    "flags are set half the time, values of categories are met alike, numbers spread over a quarter of their bounds"
)
_RARE = (
    "flags are set once in ten, values of categories but the first are met as rarely (or a quarter as often as alike), "
    "numbers spread over a tenth of their bounds"
)
_EXPLAINED = {
    "poisson": ("; what is explained is 1 on average", "; what is explained is 0.1 on average"),
    "linear": ("", "; what is explained over a quarter"),
}


def plan_formula(
    text: str,
    facts: Facts,
    family: str | None,
    n: int,
    budget: Promise,
    spend: str,
    imagined: Imagined | None = None,
    *,
    as_json: bool,
) -> None:
    """Plan a regression by its formula, for a share of a budget or a promise."""
    share = parse_spend(spend)
    purse = PrivacyFilter(budget)
    promise = parse_promise(share).under(budget.relation) if isinstance(share, str) else purse.share(share)
    paid = str(promise) if isinstance(share, str) else f"{spend} of {budget}"
    plan_regression(Formula(text, facts, family or ""), n, promise, paid, imagined, as_json=as_json)


def plan_regression(
    formula: Formula, n: int, promise: Promise, paid: str, imagined: Imagined | None = None, *, as_json: bool
) -> None:
    """Say what `regress` would do for a promise, and what to expect of each term; nothing is read."""
    said = Imagined() if imagined is None else imagined
    mechanism = AdaptiveLooks.calibrate(formula, None if promise.relation.hides_n else n, promise)
    terms, beware = foresee(mechanism, n, imagined=said), list(cautions(promise, n))
    unsaid = [name for name in (*formula.encoding.names, formula.parsed.response) if name not in said.columns]
    rare = foresee(mechanism, n, imagined=rarely(formula, said)) if unsaid else None
    if as_json:
        told = {"question": formula.describe(), "n": n, "target": promise.to_dict(), "mechanism": mechanism.to_dict()}
        told |= {"looks": [share for share, _ in mechanism.plan], "terms": [one.to_dict() for one in terms]}
        emit(told | {"rare": None if rare is None else [one.to_dict() for one in rare], "cautions": beware})
        return
    for caution in beware:
        console.print(f"[yellow]beware:[/] {escape(caution)}")
    plain = [f"± {number(one.plain, 3)}" for one in terms]
    names = [one.term for one in terms]
    columns: dict[str, list[str]] = {"term": names, "known to": _known(terms)}
    columns |= {} if rare is None else {"if rare": _known(rare)}
    rows = list(zip(*(columns | {"no privacy": plain}).values(), strict=True))
    console.print(table(formula.describe(), (*columns, "no privacy"), rows, left=1))
    console.print(
        f"\n{len(mechanism.plan)} adaptive looks, as `sottovoce regress` takes them, for {escape(paid)}: in 95 of 100 "
        f"answers, for {n:,} {promise.relation.unit}s, if each column has a small effect (0.3). "
        f"{escape(_assumed(formula, said, unsaid))}Nothing was read."
    )


def _known(terms: list[Foreseen]) -> list[str]:
    """Return half the width of each interval, and how wide it is where noise does most, if that is far more."""
    return [
        f"± {number(one.width, 3)}" + (f" (to {number(one.widest, 3)})" if one.widest > _LUCK * one.width else "")
        for one in terms
    ]


def _assumed(formula: Formula, said: Imagined, unsaid: list[str]) -> str:
    """Return what the plan takes for so, and how to say better."""
    kept = "" if formula.where is None else f"The condition holds for {said.kept:.3g} of them. "
    if not unsaid:
        return f"{kept}Columns are as imagined. "
    even, fewer = _EXPLAINED.get(formula.family, ("", ""))
    known, rare = f"{_ALIKE}{even}", f"{_RARE}{fewer}"
    hints = " ".join(f"--imagine {_hint(name, formula.facts[name])}" for name in unsaid[:3])
    return (
        f"{kept}Known to: {known}. If rare: {rare}. Which of the two {', '.join(unsaid)} may be is not public; if you "
        f"know, say so, such as {hints}. "
    )


def _hint(name: str, column: Column) -> str:
    """Return what may be said of a column, as an example."""
    match column:
        case Category(categories):
            return f"{name}:{categories[-1]}=10%"
        case Flag():
            return f"{name}=20%"
    return f"{name}=0.1"
