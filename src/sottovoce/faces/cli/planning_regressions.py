"""`sottovoce plan "smoker ~ age"`: the looks that `regress` would take, and how wide its intervals will be."""

from __future__ import annotations

import shlex

from sottovoce.faces.cli.console import console, emit, escape, table, waiting
from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.inference.regression.regression_plan import plan_looks
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.records.facts.assumed_distribution import AssumedDistribution
from sottovoce.records.facts.condition_parser import check_levels
from sottovoce.service.answers import parse_spend


def plan_formula(
    formula: Formula,
    n: int,
    budget: Promise,
    spend: str,
    imagined: AssumedDistribution | None = None,
    level: float = 0.95,
    *,
    as_json: bool,
) -> None:
    """Plan a regression by its formula, for a share of a budget or a promise."""
    share = parse_spend(spend)
    purse = PrivacyFilter(budget)
    promise = parse_promise(share).under(budget.relation) if isinstance(share, str) else purse.share(share)
    paid = str(promise) if isinstance(share, str) else f"{spend} of {budget}"
    check_levels(formula.where, formula.facts)
    plan_regression(formula, n, promise, paid, imagined, level, as_json=as_json)


def plan_regression(
    formula: Formula,
    n: int,
    promise: Promise,
    paid: str,
    imagined: AssumedDistribution | None = None,
    level: float = 0.95,
    *,
    as_json: bool,
) -> None:
    """Say what `regress` would do for a promise, and what to expect of each term; nothing is read."""
    mechanism = AdaptiveLooks.calibrate(formula, None if promise.relation.hides_n else n, promise)
    with waiting("imagining records, and looking at them"):
        plan = plan_looks(mechanism, promise, n, level, imagined)
    if as_json:
        emit(plan.to_dict())
        return
    for caution in plan.cautions:
        console.print(f"[yellow]beware:[/] {escape(caution)}")
    head, body = plan.lines()
    console.print(table(plan.question, tuple(head), body, left=1))
    footing = plan.footing(lambda hints: " ".join(f"--imagine {shlex.quote(hint)}" for hint in hints))
    console.print(
        f"\n{len(plan.looks)} adaptive looks, as `sottovoce regress` takes them, for {escape(paid)}: {escape(footing)}"
    )
