"""`sottovoce plan "mean of sbp by ward" --width 2`: what a question's answer will be worth, and what it costs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sottovoce.faces.cli.console import console, emit, escape, number, table, waiting
from sottovoce.faces.cli.output_files import save_figure
from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms.expected_error import cautions
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.privacy.shares import in_hundred, percent
from sottovoce.records.facts import Facts, Flag
from sottovoce.records.facts.assumed_distribution import parse_imagined
from sottovoce.service.answers import parse_spend
from sottovoce.service.answers.description_plan import DescriptionPlan, parse_description
from sottovoce.service.answers.trade_off import TradeOff
from sottovoce.service.curator.privacy_unit import Protected
from sottovoce.service.curator.unopened_budget import UnopenedBudget

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.inference.regression.regression_plan import RegressionPlan


def plan_question(
    text: str,
    n: int | None,
    facts: Facts | None,
    budget: Promise,
    width: str | None,
    spend: str | None,
    plot: Path | None,
    said: Mapping[str, Any],
    protect: str | None = None,
    imagine: Sequence[str] = (),
    kept: float = 1.0,
    level: float = 0.95,
    *,
    as_json: bool,
) -> None:
    """Say what shares of a budget buy, and which one an accuracy needs.

    `said` has the family, condition, prior, misses, exposure, event and cuts of a formula, None where nothing was said.
    """
    said = {name: value for name, value in said.items() if value is not None}
    if n is None or facts is None:
        raise InvalidValue("to plan a question say --n and --facts FILE: how many records, and what is public of them")
    if width is not None and spend is not None:
        raise InvalidValue("say --width or --spend: each follows from the other")
    whom = Protected.of(facts, protect)
    facts, budget = whom.facts or facts, whom.meant(budget)
    share = None if spend is None else parse_spend(spend)
    if isinstance(share, str):  # a promise is all that is paid
        budget = parse_promise(share).under(budget.relation)
    purse = UnopenedBudget("", budget, whom, records=n)
    if "~" in text:
        if width is not None or plot is not None:
            raise InvalidValue("each term of a regression has a width of its own: say --spend, and read them all")
        paid = str(budget) if isinstance(share, str) else f"{spend or '5%'} of {budget}"
        options = said | {"spend": budget if isinstance(share, str) else share or 0.05, "level": level, "records": n}
        _plan_formula(
            purse, text, options | {"imagined": parse_imagined(imagine, facts, kept=kept)}, paid, as_json=as_json
        )
        return
    if said:
        words = "--family, --where, --prior, --misses, --exposure, --event, --cut and --start are of a formula"
        raise InvalidValue(f"{words}; write a condition into the question: ... where ...")
    if isinstance(share, str):
        raise InvalidValue(f"say a share of the budget such as 5%. Got {spend!r}")
    if parse_description(text) is not None:
        if width is not None or plot is not None or imagine:
            raise InvalidValue("each question of a description has a width of its own: say --spend, and read them all")
        _plan_description(purse, text, n, 0.2 if share is None else share, as_json=as_json)
        return
    imagined = parse_imagined(imagine, purse.parsed(text).grouped_facts, kept=kept)
    balance = purse.balance(text, level=level, records=n, imagined=imagined)
    with waiting("imagining answers"):
        chosen = balance.for_width(width) if width is not None else balance.at(0.05 if share is None else share)
        rare = _if_rare(balance, chosen.share)
        offers = [] if as_json else [*(balance.at(item) for item in (0.01, 0.05, 0.2, 1.0)), chosen]
    if plot is not None:
        save_figure(balance.plot(chosen), plot)
    beware = list(cautions(budget, n))
    if as_json:
        shown = {"question": balance.question.describe(), "n": n, "budget": str(budget), "level": balance.level}
        emit(shown | chosen.to_dict() | {"rare": rare, "cautions": beware})
        return
    for caution in beware:
        console.print(f"[yellow]beware:[/] {escape(caution)}")
    offers.sort(key=lambda offer: offer.share)
    rows = [
        ("→" if item.share == chosen.share else "", percent(item.share), f"± {number(item.width, 3)}")
        for item in {offer.share: offer for offer in offers}.values()
    ]
    row = "" if not chosen.of else "each group " if chosen.of.startswith("each") else "widest row "
    console.print(table(balance.question.describe(), ("", "share of the budget", f"{row}known to"), rows))
    held = "" if balance.question.where is None else f", if the condition holds for {percent(kept)} of them"
    but = ", but for what was imagined" if imagine else ""
    whose = f" for {chosen.of}" if chosen.of else ""
    few = "" if rare is None else _of_a_small_group(rare, chosen.width, balance.question)
    console.print(
        f"\n{percent(chosen.share)} of {budget} buys ± {number(chosen.width, 3)}{whose}, in "
        f"{in_hundred(balance.level)} of 100 answers, of {whom.many(n)}{held}, if flags are even and numbers spread "
        f"over a quarter of their bounds{but}.{escape(few)} Nothing was read."
    )


def _plan_formula(purse: UnopenedBudget, text: str, options: Mapping[str, Any], paid: str, *, as_json: bool) -> None:
    from sottovoce.faces.cli.planning_regressions import show_plan  # noqa: PLC0415 - needs the regression extra

    with waiting("imagining records, and looking at them"):
        plan = cast("RegressionPlan", purse.plan(text, **options))
    show_plan(plan, paid, as_json=as_json)


def _plan_description(purse: UnopenedBudget, text: str, n: int, share: float, *, as_json: bool) -> None:
    """Say what each question of a description will be worth, and which share of the price it takes."""
    with waiting("imagining answers"):
        plan = cast("DescriptionPlan", purse.plan(text, spend=share, records=n))
    budget = purse.budget.promise
    beware = list(cautions(budget, n))
    if as_json:
        emit(plan.to_dict() | {"n": n, "budget": str(budget), "cautions": beware})
        return
    for caution in beware:
        console.print(f"[yellow]beware:[/] {escape(caution)}")
    rows = [(row["question"], percent(row["share"]), f"± {number(row['width'], 3)}{row['of']}") for row in plan.rows]
    console.print(table(plan.question, ("question", "share of the budget", "known to"), rows, left=1))
    console.print(f"\n{percent(plan.share)} of {budget} in all, of {n:,} records. Nothing was read.")


def _if_rare(balance: TradeOff, share: float) -> float | None:
    """Return the width of the widest row if one group is small; None without groups, or where it is said how small."""
    imagined, question = balance.imagined, balance.question
    groups = question.groups
    if len(question.kept) < 2 or any(name in imagined.columns for name in groups.names):
        return None
    return replace(balance, imagined=replace(imagined, smallest=1 / (4 * len(question.kept)))).at(share).width


def _of_a_small_group(rare: float, width: float, question: Question) -> str:
    """Say how well a small group is known, unless as well as any: noise alone is as wide for all."""
    if rare <= 1.01 * width:
        return ""
    known = f" A group with a quarter of an even part is known to ± {number(rare, 3)}"
    return f"{known}; say --imagine {shlex.quote(_hint(question))} if you know how small."


def _hint(question: Question) -> str:
    name, value = question.groups.names[0], question.groups.labels[question.kept[-1]][0]
    return f"{name}=10%" if isinstance(question.facts[name], Flag) else f"{name}:{value}=10%"
