"""`sottovoce demo`: a narrated run on real, bundled data."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.faces.cli.console import AsJson, console, emit, table
from sottovoce.faces.cli.demo_questions import NarratedQuestion, ask
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.shares import percent
from sottovoce.records.facts import Category, Count, Facts, Flag

__all__ = ["demo"]

BUDGET = ApproxDP(1.0, 1e-6)
FACTS = Facts(
    hit_and_run=Flag(),
    rain=Category(("not-raining", "light-rain", "heavy-rain")),
    collision_with=Category(("vehicle", "nothing", "pedestrian", "object")),
    cycle=Category(("none", "pedal-cycle", "motorcycle")),
    severity=Category(("slight", "serious", "fatal")),
    n_casualties=Count(10),
)
"""What is public of the collisions, said by a person: never read off the records."""
QUESTIONS = (
    ("How often does a driver flee?", "proportion of hit_and_run by collision_with", 0.05),
    ("How badly are people hurt, with and without a cycle?", "proportion of severity by cycle", 0.05),
    ("How many people are hurt in one collision?", "mean of n_casualties by rain", 0.1),
    ("And by what was hit, as exactly as can be?", "mean of n_casualties by collision_with", 0.95),
)


def demo(
    output: Annotated[Path, typer.Option(help="Where to write the ledger and the report.")] = Path("demo-output"),
    as_json: AsJson = False,
) -> None:
    """Ask three questions by group, be refused a fourth, and write a report, on 95,821 real road collisions."""
    from sottovoce.faces.cli.report import write_report  # noqa: PLC0415 - needs the data extra
    from sottovoce.records.tables.bundled import COLLISIONS, hk_collisions  # noqa: PLC0415
    from sottovoce.service.curator import Curator  # noqa: PLC0415

    _fresh(output)

    def say(*what: Any) -> None:
        if not as_json:
            console.print(*what)

    say("[bold]Sottovoce[/]: what 95,821 road collisions say, without saying whose\n")
    ledger = output / "collisions.ledger"
    with Curator(COLLISIONS, ledger, BUDGET, dataset="collisions", facts=FACTS) as curator:
        budget = curator.budget
        say(f"[bold]A budget[/] for everything ever published: [bold]{BUDGET}[/], counted as {budget.counted}.")
        say("[bold]Answers[/] by group, each charged, on disk, before a single record is read.\n")
        records, result = hk_collisions(), []
        for title, text, spend in QUESTIONS:
            shown = ask(curator, records, title, text, spend)
            result.append(shown)
            _tell(say, shown)
        share = curator.share_for("proportion of hit_and_run", 0.005)
        entries = curator.history()
    free = "how often drivers flee over all collisions, to ± 0.005"
    say(f"[bold]Planning[/] is free: {free}, would take {percent(share)} of the budget.\n")
    say("[bold]The ledger[/] cannot be overspent, and shows if anyone alters it:")
    say(f"   sottovoce ledger show {ledger}\n   sottovoce ledger verify {ledger}")
    page = write_report(output / "report.html", budget, result, entries)
    if as_json:
        emit({"report": str(page), "ledger": str(ledger), "answers": [_plain(item) for item in result]})
        return
    say(f"\n[bold]Open[/] {page} for the pictures.")


def _fresh(output: Path) -> None:
    """Make the output folder anew; refuse to clear a folder that no demo made."""
    ours = {"report.html", "collisions.ledger"}
    if output.exists():
        strangers = [p.name for p in output.iterdir() if not any(p.name.startswith(name) for name in ours)]
        if strangers:
            raise InvalidValue(f"{output} holds {strangers[0]!r}, which is not the demo's; give another --output")
        shutil.rmtree(output)
    try:
        output.mkdir(parents=True)
    except OSError as error:
        raise InvalidValue(f"cannot make {output}: {error.strerror}") from None


def _tell(say: Any, told: NarratedQuestion) -> None:
    if told.answer is None:
        say(f"[bold]{told.title}[/]\n   [red]refused[/]: {told.refusal}. No record was read.\n")
        return
    names = told.answer.question.label_names
    rows = [
        (*(str(row[name]) for name in names), *told.answer.formatted(row), f"{true:.4g}")
        for row, true in zip(told.answer.rows, told.truth, strict=True)
    ]
    say(table(told.title, (*names, "estimate", "low", "high", "truly"), rows, left=len(names)))
    say(f"[dim]{told.text}; {told.left}[/]\n")


def _plain(told: NarratedQuestion) -> dict[str, Any]:
    answer = None if told.answer is None else told.answer.to_dict()
    return {"title": told.title, "question": told.text, "answer": answer, "refused": told.refusal or None}
