"""What the page shows of the service: budgets, entries, answers, in words and pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sottovoce.faces.client.reach import LIMITED, reach
from sottovoce.faces.client.response_bodies import LeftBody, RemainingBody
from sottovoce.faces.server.page.answered import answer_view, posterior_view
from sottovoce.faces.server.page.charts import Chart, ChartAxis, number, rail
from sottovoce.faces.server.page.forms import purse_of
from sottovoce.faces.server.questions import ServerQuestion
from sottovoce.mechanisms import Release
from sottovoce.mechanisms.conjugate.named_systems import system_from
from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.notebook_repr import asked_in_words

PROMISES = (
    ("share", "a share of your budget"),
    ("approx", "approximate (ε, δ)"),
    ("pure", "pure (ε)"),
    ("renyi", "Rényi (order, ε)"),
    ("zcdp", "zero-concentrated (ρ)"),
    ("gaussian", "Gaussian (μ)"),
)


def gauges(remaining: RemainingBody, words: LeftBody | None = None) -> list[dict[str, Any]]:
    """Return what is left to the caller, where they have a budget, and of the whole; `words` says it too."""
    shown, (yours, limited) = [], reach(remaining)
    said = words or {"yours": None, "whole": ""}
    for status, label, in_words in (
        (remaining["yours"], "Your budget", said["yours"]),
        (remaining["whole"], "Everyone's together", said["whole"]),
    ):
        if status is None:
            continue
        share_left, why = max(1.0 - status["spent"], 0.0), ""
        if status is remaining["yours"]:
            share_left, why = yours, f", {LIMITED}" if limited else ""
        kind = "warn" if share_left < 0.1 else ""
        about = f"{percent(share_left)} is left{why}"
        shown.append(
            {
                "label": label,
                "left": in_words or f"{percent(share_left)} left{why}",
                "picture": rail(share_left, (), label, about, kind=kind),
                "periods": [
                    {"name": name, "left": max(1.0 - spent, 0.0), "percent": percent(max(1.0 - spent, 0.0))}
                    for name, spent in (status.get("periods") or {}).items()
                ],
            }
        )
    return shown


def _about(column: Any) -> str:
    if column is None:
        return "all records"
    return column if isinstance(column, str) else ", ".join(column)


def history_rows(
    entries: Sequence[Mapping[str, Any]], remaining: Mapping[str, Any], *, everyone: bool
) -> list[dict[str, Any]]:
    """Return the entries as rows of a table, newest first; everyone's are counted against the whole budget."""
    word, cost = ("whole", "whole_cost") if everyone or remaining["yours"] is None else ("yours", "cost")
    limit = purse_of(remaining[word]).limit
    rows = []
    for entry in entries:
        request, share = entry["request"], (entry[cost] or 0.0) / limit if limit else 0.0
        rows.append(
            {
                "entry": entry["entry"],
                "at": entry["at"],
                "when": entry["at"][:16].replace("T", " "),
                "who": entry["analyst"],
                "state": entry["state"],
                "question": _question(request),
                "again": "verb" in request and entry["release"] is not None,
                "answer": _STATES.get(entry["state"]) or _short(entry["release"]),
                "cost": percent(share) if entry["state"] != "void" else "nothing",
                "share": share if entry["state"] != "void" else 0.0,
            }
        )
    return rows


_STATES = {
    "pending": "not answered yet; it counts as spent",
    "void": "given up before any record was read",
    "lost": "lost on the way; it counts as spent",
}


def _question(request: Mapping[str, object]) -> str:
    query = request.get("query", "theta")
    return ("" if query == "theta" else f"{query}: ") + asked_in_words(request)


def _short(release: Mapping[str, object] | None) -> str:
    value = None if release is None else release["value"]
    if not isinstance(value, Mapping):
        return "not kept" if release is None else "a posterior"
    if "answer" in value:
        answer = value["answer"]
        if isinstance(answer, list):
            return f"{len(answer)} numbers"
        if answer is None:
            return "no number"
        return number(answer) if isinstance(answer, float | int) else str(answer)
    if isinstance(value.get("mean"), float | int):
        return f"{number(value['mean'])} ± {number(value['sd'])}"
    return "a posterior"


def spending(rows: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Return how the spent share grew, entry by entry; None with fewer than two."""
    shares = [row["share"] for row in reversed(rows)]
    if len(shares) < 2:
        return None
    total, points = 0.0, [(0.0, 0.0)]
    for index, share in enumerate(shares, start=1):
        total += 100 * share
        points += [(float(index - 1), total), (float(index), total)]
    chart = Chart(
        ChartAxis(0.0, float(len(shares)), "answers", whole=True),
        ChartAxis(0.0, 100.0, "% of the budget"),
        "Spent so far",
        f"{percent(total / 100)} of the budget in {len(shares)} answers",
        width=640.0,
        height=180.0,
    )
    chart.area(points, "one")
    chart.line(points, "one")
    chart.line([(0.0, 100.0), (float(len(shares)), 100.0)], "mark")
    return chart.svg()


def answered(answer: Mapping[str, Any], question: ServerQuestion, remaining: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows of an answer."""
    release = answer["release"]
    system = system_from(release["mechanism"]["system"])
    purse = purse_of(remaining["yours"] or remaining["whole"])
    value = release["value"]
    try:
        if isinstance(value, Mapping) and "query" in value:
            view = answer_view(value, system)
        else:
            view = posterior_view(Release.from_dict(release).value, system)
    except (SottovoceError, ArithmeticError, ValueError):  # the answer is paid for: show it, if only in words
        view = {"kind": "words", "words": json.dumps(value), "picture": None}
    return {
        "entry": answer["entry"],
        "view": {"legend": []} | view,
        "query": question.query,
        "about": _about(question.column),
        "where": question.where,
        "mechanism": release["mechanism"]["mechanism"],
        "cost": answer["cost"]["yours"] / purse.limit if purse.limit else math.nan,
    }
