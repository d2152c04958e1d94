"""The planner's pictures: what each mechanism promises, what it tells, what it costs. No record is read for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from sottovoce.faces.server.config import DatasetConfig
from sottovoce.faces.server.page.charts import Chart, ChartAxis, bars, count, number, rail
from sottovoce.faces.server.page.forms import purse_of, scaled
from sottovoce.faces.server.plans import forecast_for
from sottovoce.faces.server.questions import ServerQuestion, calibrated, model_of
from sottovoce.faces.server.work_queue import breathe
from sottovoce.mechanisms.conjugate.named_systems import system_from
from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import parse_promise
from sottovoce.privacy.shares import percent
from sottovoce.theory.metric.distinguishability import answers_left, best_guess, one_guess
from sottovoce.theory.metric.le_cam import table_error

__all__ = ["ERROR", "QUICK", "cheaper", "curves", "meter", "plan_view", "shortfalls", "strengths"]

ERROR = 0.05
"""Two data sets count as told apart when a guess is wrong at most this often."""
QUICK = ("direct", "diffused", "concentrated", "tempered")
"""Mechanisms whose forecast is a closed form."""
_FACTORS = (0.2, 0.35, 0.6, 1.0, 1.6, 2.6, 4.2)
_FEW_FACTORS = (0.2, 1.0, 4.2)
KINDS = ("one", "two", "three", "four", "five", "six")


def plan_view(plan: Mapping[str, Any], question: ServerQuestion, config: DatasetConfig, quick: bool) -> dict[str, Any]:
    """Return what the page shows of a plan: rows to compare, three pictures and the meter."""
    n, mechanism = plan["n"], str(question.mechanism)
    system = system_from(plan["system"])
    offered = config.names_for(system)
    kinds = {name: KINDS[index % len(KINDS)] for index, name in enumerate(offered)}
    rows = [_row(choice, kinds[choice["name"]], plan["remaining"]) for choice in plan["choices"]]
    planned = {row["name"] for row in rows}
    rows += [{"name": name, "kind": kinds[name], "pending": True} for name in kinds if name not in planned]
    built = [choice for choice in plan["choices"] if "curve" in choice]
    target = parse_promise(question.target)
    chosen = next((choice for choice in built if choice["name"] == mechanism), None)
    drawn = chosen is not None and (mechanism in QUICK or not quick)
    return {
        "target": str(target),
        "said": _said(next((row for row in rows if row["name"] == mechanism), None)),
        "rows": rows,
        "chosen": mechanism,
        "curves": curves(built, kinds) if built else None,
        "widths": _widths(built, kinds) if built else None,
        "strengths": strengths(question, config, n, plan["mean"], kinds[mechanism]) if drawn else None,
        "meter": meter(*_profiles(question, config, n), plan["remaining"]) if chosen else None,
        "unreachable": None if chosen else _reason(plan["choices"], mechanism),
        "foretold": getattr(system, "foretold", None) if any(choice.get("forecast") for choice in built) else None,
        "unforeseen": system.word == "regression" and not all(choice["forecast"] for choice in built),
    }


def _said(row: Mapping[str, Any] | None) -> str:
    """Return the plan in one breath, for a screen reader."""
    if row is None or row["unreachable"]:
        return "The chosen mechanism does not keep this promise."
    if row["cost"] is None:
        return f"{row['name']}: never fits the budget."
    answers = count(math.inf if row["answers"] is None else row["answers"])
    return f"{row['name']}: interval {row['width']} wide, costs {percent(row['cost'])}, {answers} answers left."


def _reason(choices: Sequence[Mapping[str, object]], mechanism: str) -> str:
    result = next((choice for choice in choices if choice["name"] == mechanism), None)
    return f"{mechanism} is not offered here" if result is None else str(result["unreachable"])


def _row(choice: Mapping[str, Any], kind: str, remaining: Mapping[str, Any]) -> dict[str, Any]:
    if "unreachable" in choice:
        return {"name": choice["name"], "kind": kind, "pending": False, "unreachable": choice["unreachable"]}
    none = dict.fromkeys(("interval_width", "exact_width", "expected_kl"))
    forecast, prices = choice["forecast"] or none, choice["price"]
    nothing = "∞" if choice["forecast"] else "not forecast"
    word = "yours" if remaining["yours"] else "whole"
    price = prices[word]
    limit = purse_of(remaining[word]).limit
    answers = [item["answers"] for item in prices.values() if item is not None and item["answers"] is not None]
    return {
        "name": choice["name"],
        "kind": kind,
        "pending": False,
        "unreachable": None,
        "width": number(forecast["interval_width"]) if forecast["interval_width"] is not None else nothing,
        "ratio": _ratio(forecast["interval_width"], forecast["exact_width"]) if choice["forecast"] else "",
        "off": f"{number(forecast['expected_kl'])} nats"
        if forecast["expected_kl"] is not None
        else "∞ nats"
        if choice["forecast"]
        else "",
        "cost": None if price["cost"] is None or limit == 0 else price["cost"] / limit,
        "answers": min(answers) if answers else None,
    }


def _ratio(width: float | None, exact: float | None) -> str:
    return "∞" if width is None or not exact else f"{number(width / exact)} ×"


def curves(choices: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]) -> Markup:
    """Return δ against ε for each mechanism: the privacy profiles."""
    top = max(choice["curve"]["epsilon"][-1] for choice in choices)
    chart = Chart(
        ChartAxis(0.0, top, "ε"),
        ChartAxis(1e-9, 1.0, "δ(ε)", log=True),
        "Privacy profile",
        "For each ε the δ that one answer keeps, for " + ", ".join(choice["name"] for choice in choices),
    )
    for choice in choices:
        pairs = zip(choice["curve"]["epsilon"], choice["curve"]["delta"], strict=True)
        chart.line([(e, d) for e, d in pairs if d is not None and d > 1e-9], kinds[choice["name"]])
    return chart.svg()


def _widths(choices: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]) -> Markup | None:
    rows = [
        (choice["name"], width, number(width), kinds[choice["name"]])
        for choice in choices
        if choice["forecast"] is not None and (width := choice["forecast"]["interval_width"]) is not None
    ]
    exact = next(
        (c["forecast"]["exact_width"] for c in choices if c["forecast"] and c["forecast"]["exact_width"]), None
    )
    if not rows or exact is None:
        return None
    shown = ", ".join(f"{name} {words}" for name, _, words, _ in rows)
    return bars(
        rows,
        exact,
        f"without privacy {number(exact)}",
        "Width of the 95 % interval",
        f"{shown}",
    )


def strengths(question: ServerQuestion, config: DatasetConfig, n: int | None, mean: object, kind: str) -> Markup | None:
    """Return the forecast width against the strength of the promise, for the chosen mechanism."""
    target = parse_promise(question.target)
    system = model_of(question.system, question.column, question.where, config).system
    points, exact = [], None
    for factor in _FACTORS if question.mechanism in QUICK else _FEW_FACTORS:
        forecast = forecast_for(str(question.mechanism), system, n, scaled(target, factor), mean)
        if forecast is not None and forecast["interval_width"] is not None:
            points.append((factor, forecast["interval_width"]))
            exact = forecast["exact_width"]
    if len(points) < 2 or exact is None:
        return None
    top = max(width for _, width in points)
    chart = Chart(
        ChartAxis(_FACTORS[0], _FACTORS[-1], "strength of the promise, times yours", log=True),
        ChartAxis(0.0, top * 1.08, "95 % interval"),
        "Utility forecast",
        f"Width {number(points[0][1])} at a fifth of the strength, {number(points[-1][1])} at {points[-1][0]:g} times",
    )
    chart.line([(_FACTORS[0], exact), (_FACTORS[-1], exact)], "mark")
    chart.note(_FACTORS[0], chart.at(1.0, exact)[1] - 11, "without privacy")
    chart.line(points, kind)
    present = next((width for factor, width in points if factor == 1.0), None)
    if present is not None:
        chart.upright(1.0, kind, height=chart.y.place(present))
        chart.note(1.0, chart.at(1.0, present)[1] - 11, f"yours: {number(present)}", strong=True)
    return chart.svg()


def _profiles(question: ServerQuestion, config: DatasetConfig, n: int | None) -> tuple[Profile, Profile]:
    """Return what one draw does, and what the question costs with all its draws."""
    system = model_of(question.system, question.column, question.where, config).system
    built = calibrated(str(question.mechanism), system, n, parse_promise(question.target))
    return built.profile, built.cost(question.draws)


def meter(one: Profile, profile: Profile, remaining: Mapping[str, Any]) -> dict[str, Any]:
    """Return how near the answers have come to telling two neighbouring data sets apart, whoever asked for them.

    Counted in the whole budget's own units, so that it holds for questions chosen as the answers come in.
    """
    purse = purse_of(remaining["whole"])
    price = purse.cost(one_guess(ERROR).about(purse.budget.relation))
    # A promise that nobody can reach, such as one at order infinity, would leave nothing to draw.
    end = max(price, purse.limit)
    answers_more = answers_left(purse, profile.shown_to(purse.budget.relation), ERROR)
    profile = profile.shown_to(purse.budget.relation)
    fits = _fits(purse, profile)
    stops = [
        (purse.limit / end, "everyone's budget ends here", "limit"),
        (price / end, "told apart", "danger"),
    ]
    spent = purse.spent / price
    return {
        "left": answers_more,
        "fits": fits,
        "yours": None if remaining["yours"] is None else _fits(purse_of(remaining["yours"]), profile),
        "guess": best_guess(one),
        "table": 1 - table_error(1, best_guess(one.replacing() if one.relation.hides_n else one) * 2 - 1),
        "error": ERROR,
        "spent": spent,
        "picture": rail(
            purse.spent / end,
            stops,
            "Distinguishability",
            f"{percent(spent)} of what it takes to tell two neighbouring data sets apart is spent; "
            f"the budget stops at {percent(purse.limit / price)}",
            kind="calm" if purse.limit < price else "warn",
        ),
    }


def _fits(purse: PrivacyFilter, profile: Profile) -> float:
    """Return how many more such answers a budget covers."""
    cost = purse.cost(profile)
    if not math.isfinite(cost):
        return 0
    return math.inf if cost == 0 else max(int((purse.limit - purse.spent) / cost + 1e-9), 0)


def shortfalls(
    question: ServerQuestion, config: DatasetConfig, n: int | None, purses: Mapping[str, PrivacyFilter]
) -> list[str]:
    """Return, for each budget that does not cover a question, what it would cost and what is left."""
    _, cost = _profiles(question, config, n)
    shown = []
    for words, purse in purses.items():
        asked = purse.cost(cost.shown_to(purse.budget.relation))
        if purse.fits(asked):
            continue
        remaining = percent(max(1 - purse.spent / purse.limit, 0.0)) if purse.limit else "0 %"
        if math.isfinite(asked) and purse.limit:
            shown.append(f"This question costs {percent(asked / purse.limit)} of {words}, and {remaining} is left.")
        else:
            shown.append(f"No amount of {words} covers this mechanism; choose another.")
    return shown


def cheaper(
    question: ServerQuestion, config: DatasetConfig, n: int | None, purses: Sequence[PrivacyFilter]
) -> dict[str, Any] | None:
    """Return the strongest of some weaker copies of a question that every budget still covers, if one does."""
    target = parse_promise(question.target)
    system = model_of(question.system, question.column, question.where, config).system
    for factor in (0.75, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.025, 0.01):
        weaker = scaled(target, factor)
        breathe()
        try:
            cost = calibrated(str(question.mechanism), system, n, weaker).cost(question.draws)
        except SottovoceError:
            continue
        if all(purse.can_spend(cost.shown_to(purse.budget.relation)) for purse in purses):
            return {"target": str(weaker), "factor": factor, "question": replace(question, target=str(weaker))}
    return None
