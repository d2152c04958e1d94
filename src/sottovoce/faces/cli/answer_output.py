"""An answer as the command line shows it: its table, what follows from it for free, and its file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.faces.cli.console import console, emit, table
from sottovoce.faces.cli.output_files import written
from sottovoce.privacy.errors import InvalidValue

if TYPE_CHECKING:
    from sottovoce.faces.cli.shared import Output, Printed
    from sottovoce.service.answers import Question
    from sottovoce.service.curator import Curator


@dataclass(frozen=True)
class ShownAnswer:
    """What follows from an answer: lines for people, plain values for JSON."""

    lines: Sequence[str]
    values: dict[str, Any]


def show(answer: Any, after: str) -> None:
    """Print an answer: its table, what holds for every row, and what follows it."""
    if not hasattr(answer, "lines"):  # of a verb of somebody's own
        console.print(f"{answer.summary()}\n{after}", markup=False)
        return
    header, rows = answer.lines()
    remaining = len(getattr(answer.question, "label_names", ("term",)))
    console.print(table(answer.question.describe(), header, rows, left=remaining))
    console.print(f"{answer.footing()}. {after}", markup=False)


def table_file(answer: Any) -> Callable[[Path], None]:
    """Return what writes the table of an answer into a CSV file: groups are called there what the screen calls them."""
    from sottovoce.service.answers.display import shown  # noqa: PLC0415 - numpy

    def write(file: Path) -> None:
        names, frame = getattr(answer.question, "label_names", ()), answer.table
        frame.assign(**{name: [shown(value) for value in frame[name]] for name in names}).to_csv(file, index=False)

    return write


def deliver(answer: Any, beside: ShownAnswer, output: Output, curator: Curator, before: str = "") -> None:
    """Show an answer with what follows from it, and what is left of the budget that paid for it."""
    remaining, whom = curator.left(), curator.whom
    shown = {"dataset": curator.dataset, "left": remaining, "protects": whom}
    show_with_files(
        answer, beside, shown, f"{before}{remaining}." + ("" if curator.person is None else f" {whom}."), output
    )


def show_with_files(answer: Any, beside: ShownAnswer, shown: Mapping[str, Any], after: str, output: Output) -> None:
    """Write the table and the picture of an answer into files, and show it, what follows from it, and what is left.

    `shown` is what JSON says besides, `after` what people are told.
    """
    with written((output.csv, table_file(answer)), *paper_files(answer, output), (output.plot, _picture_file(answer))):
        said = {"methods": answer.methods()} if output.methods else {}
        if output.as_json:
            emit(answer.to_dict() | {"notes": list(getattr(answer, "notes", ()))} | shown | beside.values | said)
            return
        show(answer, after)
        for line in [*beside.lines, *(f"\n{text}" for text in said.values())]:
            console.print(line, markup=False)


def paper_files(answer: Any, output: Printed) -> list[tuple[Path | None, Callable[[Path], Any]]]:
    """Return the files that a paper takes a table from, and what writes each."""

    def document(file: Path) -> None:
        answer.to_docx(file)

    return [
        (output.latex, lambda file: file.write_text(answer.to_latex(), encoding="utf-8")),
        (output.markdown, lambda file: file.write_text(answer.to_markdown(), encoding="utf-8")),
        (output.docx, document),
    ]


def _picture_file(answer: Any) -> Callable[[Path], None]:
    return lambda file: answer.plot().savefig(file)


def row_places(question: Question, rows: tuple[str, str]) -> tuple[int, int]:
    """Return the places of two rows that are to be compared, or refuse one that is not there."""
    from sottovoce.service.answers.row_names import row_of  # noqa: PLC0415 - needs the data extra

    first, second = (row_of(question, name) for name in rows)
    if first == second:
        raise InvalidValue(f"--compare takes two different rows. Got {rows[0]!r} twice")
    return first, second


def _shares(answer: Any, claim: str) -> list[dict[str, Any]]:
    """Return the share of records of which a claim about the column of quantiles holds, a row a group; none else."""
    from sottovoce.service.answers.distribution_function import exceedance  # noqa: PLC0415 - numpy

    groups = answer.question.groups.labels
    claimed = [(group, exceedance(answer.posterior, claim, group, answer.level)) for group in groups]
    return [
        {"claim": claim, "group": list(group)} | dict(zip(("estimate", "low", "high"), share, strict=True))
        for group, share in claimed
        if share is not None
    ]


def _share_line(row: dict[str, Any]) -> str:
    from sottovoce.service.answers.digits import formatted  # noqa: PLC0415 - numpy
    from sottovoce.service.answers.row_names import row_name  # noqa: PLC0415 - needs the data extra

    estimate, low, high = formatted(row)[:3]
    group = f", {row_name(row['group'])}" if row["group"] else ""
    return f"{row['claim']}{group}: {estimate} of the records ({low} to {high})"


def of_rows(answer: Any, rows: tuple[str, str] | None, claims: Sequence[str] = ()) -> ShownAnswer:
    """Return how two rows of an answer differ, and how likely claims about its rows are."""
    from sottovoce.service.answers.contrast import contrast  # noqa: PLC0415 - needs the data extra
    from sottovoce.service.answers.digits import sure  # noqa: PLC0415

    lines: list[str] = []
    values: dict[str, Any] = {}
    if rows is not None:
        result = contrast(answer, *row_places(answer.question, rows))
        lines.append("\n" + " ".join(result.sentences()))
        values |= {"compared": result.sentences(), "comparison": result.to_dict()}
    beyond = [row for claim in claims for row in _shares(answer, claim.strip())]
    if beyond:
        lines += [_share_line(row) for row in beyond]
        values["shares"] = beyond
    claims = [claim for claim in claims if claim.strip() not in {row["claim"] for row in beyond}]
    if claims:
        likely = [(claim.strip(), answer.probability(claim)) for claim in claims]
        lines += [
            f"{claim}: not known, noise hides a row" if math.isnan(p) else f"{claim}: probability {sure(p)}"
            for claim, p in likely
        ]
        values["probabilities"] = [{"claim": claim, "probability": None if math.isnan(p) else p} for claim, p in likely]
    return ShownAnswer(lines, values)


def of_regression(
    answer: Any, rows: Sequence[str] = (), contrasts: Sequence[str] = (), averages: Sequence[str] = ()
) -> ShownAnswer:
    """Return what a regression expects of rows, contrasts of its terms, and what columns do on average."""
    from sottovoce.service.answers.contrast_parser import parse_contrast  # noqa: PLC0415 - data extra
    from sottovoce.service.answers.predictions import expected, sentence  # noqa: PLC0415

    predicted = expected(answer.posterior, rows, answer.level)
    combined = [answer.contrast(parse_contrast(item, answer.posterior.terms)) for item in contrasts]
    lines = [sentence(answer.question.predicted, answer.level, item) for item in predicted]
    lines += [item.sentence() for item in combined]
    effects = [row for name in averages for row in answer.average_effects(name).to_dict("records")]
    lines += [_effect_line(row, answer.question.predicted) for row in effects]
    values = {"predicted": predicted} if predicted else {}
    values |= {"average_effects": effects} if effects else {}
    return ShownAnswer(lines, values | ({"contrasts": [item.to_dict() for item in combined]} if combined else {}))


def of_changes(late: Any, early: Any) -> ShownAnswer:
    """Return how hazard ratios changed since earlier times."""
    from sottovoce.service.answers.digits import formatted, sure  # noqa: PLC0415 - numpy

    rows, lines = late.changed_since(early).to_dict("records"), []
    for row in rows:
        times = dict(zip(("estimate", "low", "high"), (row["times"], row["times_low"], row["times_high"]), strict=True))
        estimate, low, high = formatted(times)[:3]
        lines.append(f"{row['term']}: hazard ratio {estimate} ({low} to {high}) times that of earlier times, P(sign) ")
        lines[-1] += sure(row["probability"])
    return ShownAnswer(lines, {"changed": rows})


def _effect_line(row: Mapping[str, Any], response: str) -> str:
    from sottovoce.service.answers.digits import formatted, sure  # noqa: PLC0415 - numpy

    estimate, low, high = formatted(row)[:3]
    of = f" on {response} {row[response]}" if response in row else f" on {response}"
    return f"{row['effect']}{of}, on average: {estimate} ({low} to {high}), P(sign) {sure(row['probability'])}"
