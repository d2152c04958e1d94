"""The demo's report: one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.cli.figures import budget_figure, density_figure, draw_choices, interval_figure, svg_text
from sottovoce.cli.questions import Answer
from sottovoce.ledger import Budget, Entry
from sottovoce.mechanisms.choices import Choice
from sottovoce.privacy.errors import InvalidValue
from sottovoce.readings import CategoryCounts

__all__ = ["write_report"]

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sottovoce: road collisions</title>
<style>
:root {{ color-scheme: light dark; --ink: #1d2327; --paper: #fbfaf7; --card: #fff; --line: #e3dfd6; --quiet: #6a6f73; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e8e6e1; --paper: #16191b; --card: #1e2225; --line: #33383c; --quiet: #9aa1a6; }}
  figure svg {{ filter: invert(0.92) hue-rotate(180deg); }}
}}
body {{ font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0; }}
main {{ max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.2rem 4rem; }}
h1 {{ font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; }} h2 {{ font-size: 1.25rem; margin: 2.2rem 0 .5rem; }}
.lead, small, .quiet {{ color: var(--quiet); }} .lead {{ font-size: 1.1rem; margin-top: 0; }}
section {{ background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.3rem; margin: 1rem 0; }}
section h3 {{ margin: .2rem 0 .1rem; }} section.refused {{ border-color: #b3261e; }} .refused b {{ color: #b3261e; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .94rem; }}
th {{ text-align: left; color: var(--quiet); font-weight: 500; }} th, td {{ padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); }}
figure {{ margin: .6rem 0; }} figure svg {{ max-width: 100%; height: auto; }} code {{ font-size: .9em; overflow-wrap: anywhere; }}
</style></head><body><main>
<h1>95,821 collisions, and nobody singled out</h1>
<p class="lead">Three things published from Hong Kong's road collisions of 2014 to 2019, under one promise (ε = {epsilon:g}, δ = {delta:g}).
Replace any one record by any other, and no event becomes more than e<sup>{epsilon:g}</sup> times likelier, but for a probability of {delta:g}.</p>
<h2>The plan, before any data was read</h2>
<figure>{plan}</figure>
<h2>What was released</h2>
{answers}
<h2>What it cost</h2>
<p>The budget counts Rényi divergence at order {order:.4g}, fixed when it was opened, so it holds even when each question depends on the answers before it.</p>
<figure>{budget}</figure>
<h2>The ledger</h2>
<table><thead><tr><th>entry</th><th>state</th><th>mechanism</th><th>cost</th><th>basis</th><th>when (UTC)</th><th>hash of the value</th></tr></thead>
<tbody>{entries}</tbody></table>
<p><small>The true values are shown because this data set is public; a real curator never prints them.
Data: Transport Department, Hong Kong. Every number above the ledger came from operating-system entropy: run the demo again and the draws differ.</small></p>
</main></body></html>
"""


def write_report(
    path: Path, budget: Budget, found: Sequence[Choice], answers: Sequence[Answer], entries: Sequence[Entry]
) -> Path:
    """Write the page and return its path."""
    promise: Any = budget.promise
    text = _PAGE.format(
        epsilon=promise.epsilon,
        delta=promise.delta,
        plan=svg_text(draw_choices(found, answers[0].question.target)),
        answers="\n".join(_answer(a) for a in answers),
        order=budget.filter["order"],
        budget=svg_text(
            budget_figure(
                [_short(a.question.title) for a in answers],
                [a.cost for a in answers],
                budget.limit,
                f"Rényi divergence at order {budget.filter['order']:.4g}",
            )
        ),
        entries="\n".join(_entry(e) for e in entries),
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidValue(f"cannot write the report to {path}: {error.strerror}") from None
    return path


def _short(title: str) -> str:
    words = title.rstrip("?").split()
    return " ".join(words[:4]) + ("…" if len(words) > 4 else "")


def _answer(answer: Answer) -> str:
    question = answer.question
    head = f"<h3>{escape(question.title)}</h3><div class='quiet'>{escape(question.mechanism)}, promise {escape(str(question.target))}</div>"
    if answer.release is None or answer.truth is None:
        return f"<section class='refused'>{head}<p><b>Refused.</b> {escape(answer.refusal)}. No record was read.</p></section>"
    value: Any = answer.release.value
    exact: Any = question.system.posterior(answer.truth)
    if isinstance(question.system.reading, CategoryCounts):
        names = [str(c) for c in question.system.reading.categories]
        figure = interval_figure(names, value.mean, value.interval(0.95), exact.mean)
        words = "A whole posterior, from counts with discrete Gaussian noise. Sample it as often as you like: that costs nothing more."
    elif hasattr(value, "interval"):
        low, high = value.interval(0.999)
        a, b = exact.interval(0.999)
        figure = density_figure(
            [("released posterior", value), ("without privacy", exact)],
            min(low, a),
            max(high, b),
            "people hurt in one collision",
        )
        lo, hi = value.interval(0.95)
        words = f"A whole posterior that knows of its noise: 95 % between {lo:.4f} and {hi:.4f}."
    else:
        sampled: Any = question.system.posterior(answer.truth, *_weights(answer.release))
        low, high = sampled.interval(0.999)
        figure = density_figure(
            [("what the draw came from", sampled), ("without privacy", exact)],
            low,
            high,
            "share of collisions",
            [("the draw", float(value))],
        )
        words = f"One draw, {value:.4f}, from a posterior that counts each record as {_weights(answer.release)[0]:.3g} of a record."
    epsilon = answer.release.profile.epsilon(1e-6)
    cost = f"<small>alone: ε = {epsilon:.3g} at δ = 1e-06, {answer.release.profile.basis}; {answer.cost:.4g} of the budget</small>"
    return f"<section>{head}<p>{escape(words)}</p><figure>{svg_text(figure)}</figure>{cost}</section>"


def _weights(release: Any) -> tuple[float, float]:
    return float(np.float64(release.mechanism.get("data_weight", 1.0))), float(
        release.mechanism.get("prior_weight", 1.0)
    )


def _entry(entry: Entry) -> str:
    mechanism: Any = entry.request["mechanism"]
    cells = (
        *(entry.id, entry.state, mechanism["mechanism"], f"{entry.cost:.4g}", entry.basis, entry.at[:19]),
        f"{(entry.value_hash or '')[:16]}…",
    )
    return "<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in cells) + "</tr>"
