"""`sottovoce plan "smoker ~ age"`: the looks that `regress` would take, and how wide its intervals will be."""

from __future__ import annotations

import shlex

from sottovoce.faces.cli.console import console, emit, escape, table, waiting
from sottovoce.inference.regression import Formula, looks_of
from sottovoce.inference.regression.regression_plan import RegressionPlan, plan_looks
from sottovoce.privacy.promises import Promise


def plan_regression(formula: Formula, n: int, promise: Promise, *, as_json: bool) -> None:
    """Say what `regress` would do for a promise, and what to expect of each term; nothing is read."""
    mechanism = looks_of(formula, None if promise.relation.hides_n else n, promise)
    with waiting("imagining records, and looking at them"):
        plan = plan_looks(mechanism, promise, n)
    show_plan(plan, str(promise), as_json=as_json)


def show_plan(plan: RegressionPlan, paid: str, *, as_json: bool) -> None:
    """Print the plan of a regression that is paid so."""
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
