"""`sottovoce plan "smoker ~ age"`: the looks that `regress` would take, and how wide its intervals will be."""

from __future__ import annotations

from sottovoce.answers import parse_spend
from sottovoce.cli.console import console, emit, escape, number, table
from sottovoce.facts import Facts
from sottovoce.mechanisms.expected import cautions
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.regression import AdaptiveLooks, Formula
from sottovoce.regression.foreseen import foresee

__all__ = ["plan_formula", "plan_regression"]


def plan_formula(
    text: str, facts: Facts, family: str | None, n: int, budget: Promise, spend: str, *, as_json: bool
) -> None:
    """Plan a regression by its formula, for a share of a budget or a promise."""
    share = parse_spend(spend)
    purse = PrivacyFilter(budget)
    promise = parse_promise(share).under(budget.relation) if isinstance(share, str) else purse.share(share)
    paid = str(promise) if isinstance(share, str) else f"{spend} of {budget}"
    plan_regression(Formula(text, facts, family or ""), n, promise, paid, as_json=as_json)


def plan_regression(formula: Formula, n: int, promise: Promise, paid: str, *, as_json: bool) -> None:
    """Say what `regress` would do for a promise, and what to expect of each term; nothing is read."""
    mechanism = AdaptiveLooks.calibrate(formula, None if promise.relation.hides_n else n, promise)
    terms, beware = foresee(mechanism, n), list(cautions(promise, n))
    if as_json:
        told = {"question": formula.describe(), "n": n, "target": promise.to_dict(), "mechanism": mechanism.to_dict()}
        told |= {"looks": [share for share, _ in mechanism.plan], "terms": [one.to_dict() for one in terms]}
        emit(told | {"cautions": beware})
        return
    for caution in beware:
        console.print(f"[yellow]beware:[/] {escape(caution)}")
    rows = [
        (one.term, f"± {number(one.width, 3)}", "?" if one.plain is None else f"± {number(one.plain, 3)}")
        for one in terms
    ]
    console.print(table(formula.describe(), ("term", "known to", "no privacy"), rows, left=1))
    console.print(
        f"\n{len(mechanism.plan)} adaptive looks, as `sottovoce regress` takes them, for {escape(paid)}: in 95 of 100 "
        f"answers, for {n:,} {promise.relation.unit}s evenly spread over what is public of them, and going with "
        "nothing. Rare levels, narrow columns and groups that differ are known less well, by several times at worst. "
        "Nothing was read."
    )
