"""The demo's report: one page with every answer by group, what it cost, and the ledger. No script, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.faces.cli.demo_questions import NarratedQuestion
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.card import asked as asked_in
from sottovoce.service.answers.card import in_words
from sottovoce.service.answers.display import drawn_rows, plain_words
from sottovoce.service.ledger import Budget, Entry

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sottovoce: road collisions</title>
<style>
:root {{ color-scheme: light dark; --ink: #1d2327; --paper: #fbfaf7; --card: #fff; --line: #e3dfd6; --quiet: #5f6569; --mark: #1f5f8b; --true: #b3261e; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e8e6e1; --paper: #16191b; --card: #1e2225; --line: #33383c; --quiet: #a5abb0; --mark: #7db8e0; --true: #ff8a80; }}
}}
body {{ font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0; }}
main {{ max-width: 54rem; margin: 0 auto; padding: 2.2rem 1.1rem 4rem; }}
h1 {{ font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; }} h2 {{ font-size: 1.25rem; margin: 2.2rem 0 .5rem; }}
.lead, small, .quiet {{ color: var(--quiet); }} .lead {{ font-size: 1.1rem; margin-top: 0; }}
section {{ background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.2rem; margin: 1rem 0; }}
section h3 {{ margin: .2rem 0 .1rem; }} section.refused {{ border-color: var(--true); }} .refused b {{ color: var(--true); }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .94rem; }}
th {{ text-align: left; color: var(--quiet); font-weight: 500; }} th, td {{ padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); }}
td.range {{ white-space: nowrap; color: var(--quiet); }} td.drawn {{ width: 42%; min-width: 7rem; padding-right: 0; }} tr.axis td {{ border: 0; }}
td svg {{ display: block; overflow: visible; }} svg line {{ stroke: var(--mark); }} svg circle.dot {{ fill: var(--mark); }} svg .true {{ stroke: var(--true); }}
.bar {{ display: flex; height: 1.6rem; border-radius: 6px; overflow: hidden; background: var(--line); }}
.bar span {{ background: var(--mark); border-right: 2px solid var(--card); }}
.scroll {{ overflow-x: auto; }} .scroll td {{ white-space: nowrap; }} code {{ font-size: .9em; overflow-wrap: anywhere; }}
@media (max-width: 40rem) {{
  h1 {{ font-size: 1.6rem; }} section {{ padding: .8rem .8rem; }} .answer thead {{ display: none; }}
  .answer tr {{ display: flex; flex-wrap: wrap; gap: 0 .7rem; padding: .35rem 0; border-bottom: 1px solid var(--line); }}
  .answer tr.axis {{ border: 0; }} .answer td {{ border: 0; padding: 0; }} .answer td.drawn {{ width: 100%; }} .answer td.room {{ display: none; }}
}}
</style></head><body><main>
<h1>95,821 collisions, and nobody singled out</h1>
<p class="lead">Three answers from Hong Kong's road collisions of 2014 to 2019, under one promise (ε&nbsp;=&nbsp;{epsilon:g}, δ&nbsp;=&nbsp;{delta}).
{promise}</p>
<h2>What was asked, and answered</h2>
{answers}
<p class="quiet">The dot is the estimate, the line its range. {words} The thick part of a line would be there without the noise.
The red mark is the true number, shown because this data set is public; a real curator never prints it.</p>
<h2>What it cost</h2>
<div class="bar" role="img" aria-label="{spent} of the budget is spent">{bar}</div>
<p>{spent} of the budget is spent: {shares}. It counts {counted}, fixed when it was opened, so it holds even when each question depends on the answers before it.</p>
<h2>The ledger</h2>
<div class="scroll"><table><thead><tr><th>entry</th><th>state</th><th>question</th><th>cost</th><th>when (UTC)</th><th>hash of the value</th></tr></thead>
<tbody>{entries}</tbody></table></div>
<p><small>Data: Transport Department, Hong Kong. The noise came from operating-system entropy: run the demo again and the answers differ.</small></p>
</main></body></html>
"""


def write_report(path: Path, budget: Budget, found: Sequence[NarratedQuestion], entries: Sequence[Entry]) -> Path:
    """Write the page and return its path."""
    promise: Any = budget.promise
    costs = [item.answer.share or 0.0 for item in found if item.answer is not None]
    text = _PAGE.format(
        epsilon=promise.epsilon,
        delta=np.format_float_positional(promise.delta, trim="-"),
        promise=escape(in_words(promise)),
        answers="\n".join(map(_answer, found)),
        words=escape(plain_words(0.95, 2)),
        bar="".join(f'<span style="width:{100 * cost:.3f}%"></span>' for cost in costs),
        spent=percent(sum(costs)).replace(" ", "&nbsp;"),
        shares=", ".join(percent(cost).replace(" ", "&nbsp;") for cost in costs),
        counted=escape(budget.counted),
        entries="\n".join(_entry(entry, budget) for entry in entries),
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidValue(f"cannot write the report to {path}: {error.strerror}") from None
    return path


def _answer(told: NarratedQuestion) -> str:
    head = f"<h3>{escape(told.title)}</h3><div class='quiet'>{escape(told.text)}</div>"
    if told.answer is None:
        return f"<section class='refused'>{head}<p><b>Refused:</b> {escape(told.refusal)}. No record was read.</p></section>"
    names, rows, scale = drawn_rows(told.answer.rows)
    body = []
    for row, true in zip(rows, told.truth, strict=True):
        mark = f'<line class="true" x1="{scale.place(true):.2f}%" x2="{scale.place(true):.2f}%" y1="4" y2="18" stroke-width="2"/>'
        cells = "".join(f"<td>{escape(label)}</td>" for label in row.labels)
        cells += f"<td><strong>{row.estimate}</strong></td><td class='range'>{row.low} to {row.high}</td>"
        body.append(f"<tr>{cells}<td class='drawn'>{row.picture.replace('</svg>', mark + '</svg>')}</td></tr>")
    axis = (
        f"<tr class='axis'><td class='room' colspan='{len(names) + 2}'></td><td class='drawn'>{scale.axis()}</td></tr>"
    )
    titles = "".join(f"<th>{escape(name)}</th>" for name in (*names, "estimate", "range", ""))
    table = f"<table class='answer'><thead><tr>{titles}</tr></thead><tbody>{''.join(body)}{axis}</tbody></table>"
    notes = "".join(f"{escape(note[:1].upper() + note[1:])}. " for note in told.answer.notes)
    cost = f"<small>{notes}{percent(told.answer.share or 0.0)} of the budget; then {escape(told.left)}.</small>"
    return f"<section>{head}{table}{cost}</section>"


def _entry(entry: Entry, budget: Budget) -> str:
    _, asked = asked_in(entry.request)
    cells = (entry.id, entry.state, asked, percent(budget.share(entry.cost)), entry.at[:19].replace("T", " "))
    row = "".join(f"<td>{escape(str(cell))}</td>" for cell in cells)
    return f"<tr>{row}<td><code>{(entry.value_hash or '')[:16]}…</code></td></tr>"
