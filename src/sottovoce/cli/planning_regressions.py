"""`sottovoce plan "smoker ~ age"`: the looks that `regress` would take, and how wide its intervals will be."""

from __future__ import annotations

from collections.abc import Sequence

from sottovoce.answers import parse_spend
from sottovoce.cli.console import console, emit, escape, number, table
from sottovoce.facts import Facts
from sottovoce.facts.imagined import Imagined
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.regression import AdaptiveLooks, Formula
from sottovoce.regression.foreseen import Foreseen
from sottovoce.regression.planned import plan_looks

__all__ = ["plan_formula", "plan_regression"]


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
    mechanism = AdaptiveLooks.calibrate(formula, None if promise.relation.hides_n else n, promise)
    plan = plan_looks(mechanism, promise, n, imagined=imagined)
    if as_json:
        emit(plan.to_dict())
        return
    for caution in plan.cautions:
        console.print(f"[yellow]beware:[/] {escape(caution)}")
    columns: dict[str, list[str]] = {"term": [one.term for one in plan.terms], "known to": _known(plan.terms)}
    columns |= {} if plan.rare is None else {"if rare": _known(plan.rare)}
    columns |= {"no privacy": [f"± {number(one.plain, 3)}" for one in plan.terms]}
    console.print(table(plan.question, tuple(columns), list(zip(*columns.values(), strict=True)), left=1))
    hints = " ".join(f"--imagine {hint}" for hint in plan.hints)
    better = f"Which of the two {', '.join(plan.unsaid)} may be is not public; if you know, say so, such as {hints}. "
    console.print(
        f"\n{len(plan.looks)} adaptive looks, as `sottovoce regress` takes them, for {escape(paid)}: in 95 of 100 "
        f"answers, for {n:,} {promise.relation.unit}s. {escape(plan.assumed)} {escape(better) if plan.unsaid else ''}"
        "Nothing was read."
    )


def _known(terms: Sequence[Foreseen]) -> list[str]:
    """Return half the width of each interval, and how wide it is where noise does most, if that is far more."""
    return [f"± {number(one.width, 3)}" + (f" (to {number(one.widest, 3)})" if one.unsure else "") for one in terms]
