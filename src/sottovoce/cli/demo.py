"""`sottovoce demo`: a narrated run on real, bundled data."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from sottovoce.cli.console import AsJson, console, emit, number, table
from sottovoce.cli.questions import Answer, Question
from sottovoce.mechanisms.choices import Choice, build_mechanism, choices
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue
from sottovoce.privacy.promises import ApproxDP, PureDP, ZeroConcentratedDP
from sottovoce.systems import BetaBernoulli, DirichletCategorical, GammaPoisson

__all__ = ["demo"]

BUDGET = ApproxDP(1.0, 1e-6)


QUESTIONS = (
    Question(
        "How often is someone killed or badly hurt?",
        BetaBernoulli(alpha=1, beta=4),
        "diffused",
        ApproxDP(0.5, 1e-7),
        where="severity in ('serious', 'fatal')",
    ),
    Question(
        "What do vehicles collide with?",
        DirichletCategorical(categories=("vehicle", "nothing", "pedestrian", "object")),
        "gaussian",
        ZeroConcentratedDP(0.008),
        column="collision_with",
    ),
    Question(
        "How many people are hurt in one collision?",
        GammaPoisson(shape=2, rate=1, high=10),
        "laplace",
        PureDP(0.15),
        column="n_casualties",
    ),
    Question(
        "And how often at night in the rain?",
        BetaBernoulli(alpha=1, beta=9),
        "laplace",
        PureDP(0.8),
        where="light != 'daylight' and rain != 'not-raining'",
    ),
)


def demo(
    output: Annotated[Path, typer.Option(help="Where to write the ledger and the report.")] = Path("demo-output"),
    as_json: AsJson = False,
) -> None:
    """Plan, release three times, be refused a fourth, and write a report, on 95,821 real road collisions."""
    from sottovoce.cli.report import write_report  # noqa: PLC0415 - plots are an extra
    from sottovoce.curator import Curator  # noqa: PLC0415 - needs the data extra
    from sottovoce.tables import open_table  # noqa: PLC0415
    from sottovoce.tables.bundled import COLLISIONS  # noqa: PLC0415

    _fresh(output)

    def say(*what: Any) -> None:
        if not as_json:
            console.print(*what)

    say("[bold]Sottovoce[/]: what 95,821 road collisions say, without saying whose\n")
    with Curator(COLLISIONS, output / "collisions.ledger", BUDGET, dataset="collisions") as curator:
        n, budget = curator.budget.n, curator.budget
        say(f"[bold]1. A budget.[/] n = {n} records, and one promise for everything ever published: [bold]{BUDGET}[/].")
        say(f"   It is counted as Rényi divergence at order {budget.filter['order']:.4g}: {budget.limit:.4g} in all.\n")
        first = QUESTIONS[0]
        found = choices(
            first.system, n, first.target, 0.15, ["direct", "diffused", "concentrated", "tempered", "laplace"]
        )
        say("[bold]2. A plan.[/] No data is read. For the first question, these keep the promise:")
        say(_plan_table(found))
        say("\n[bold]3. Releases.[/] Each is charged, on disk, before a single record is read.")
        answers = []
        with open_table(COLLISIONS) as truth:
            for question in QUESTIONS:
                answer = _ask(curator, truth, question)
                answers.append(answer)
                _tell(say, answer, str(curator.remaining()))
        entries = curator.history()
    say("\n[bold]4. The ledger[/] cannot be overspent, and shows if anyone alters it:")
    rows = [
        (str(e.id), str(e.state), e.request["mechanism"]["mechanism"], number(e.cost, 4), e.at[:19]) for e in entries
    ]
    say(table("", ("entry", "state", "mechanism", "cost", "when"), rows, left=3))
    page = write_report(output / "report.html", budget, found, answers, entries)
    if as_json:
        emit(
            {"report": str(page), "ledger": str(output / "collisions.ledger"), "answers": [_plain(a) for a in answers]}
        )
        return
    say(
        f"\n   sottovoce ledger show {output / 'collisions.ledger'}"
        f"\n   sottovoce ledger verify {output / 'collisions.ledger'}"
    )
    say(f"\n[bold]Open[/] {page} for the curves.")


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


def _ask(curator: Any, truth: Any, question: Question) -> Answer:
    mechanism = build_mechanism(question.mechanism, question.system, curator.budget.n, question.target)
    order = curator.budget.filter["order"]
    cost = float(mechanism.profile.renyi(order))
    try:
        made = curator.release(mechanism, question.column, where=question.where)
    except BudgetExceeded as refusal:
        return Answer(question, cost, None, str(refusal), None)
    real = truth.read(question.system.reading, question.column, where=question.where)
    return Answer(question, cost, made, "", real)


def _plan_table(found: list[Choice]) -> Any:
    rows = []
    for c in found:
        if c.mechanism is None or c.forecast is None:
            rows.append((f"   {c.name}", "cannot keep it", "", ""))
        else:
            f = c.forecast
            basis = str(c.mechanism.profile.basis)
            rows.append((f"   {c.name}", basis, number(f.interval_width, 3), number(f.exact_width, 3)))
    return table("", ("   mechanism", "basis", "95 % width", "without privacy"), rows, left=2)


def _tell(say: Any, answer: Answer, left: str) -> None:
    question = answer.question
    say(f"\n   [bold]{question.title}[/]  [dim]{question.mechanism}, promise {question.target}[/]")
    if answer.release is None or answer.truth is None:
        say(f"   [red]refused[/]: {answer.refusal}")
        return
    exact = question.system.posterior(answer.truth)
    value = answer.release.value
    if hasattr(value, "interval"):
        low, high = (np.atleast_1d(x) for x in value.interval(0.95))
        mean, real = np.atleast_1d(value.mean), np.atleast_1d(exact.mean)
        names = getattr(question.system.reading, "categories", ("mean",))
        for name, m, a, b, r in zip(names, mean, low, high, real, strict=True):
            say(f"   {name:>10}  {m:.4f}  [dim]95 % between {a:.4f} and {b:.4f}; truly {r:.4f}[/]")
    else:
        say(f"   {'one draw':>10}  {value:.4f}  [dim]truly {exact.mean:.4f}[/]")
    say(f"   [dim]cost {answer.cost:.4f}, left {left}[/]")


def _plain(answer: Answer) -> dict[str, Any]:
    made = None if answer.release is None else answer.release.to_dict()
    return {"question": answer.question.title, "cost": answer.cost, "release": made, "refused": answer.refusal or None}
