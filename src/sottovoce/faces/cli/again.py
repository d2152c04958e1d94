"""`sottovoce again`: an answer that was paid for before, and what follows from it; free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.answer_output import ShownAnswer, of_changes, of_regression, of_rows, show_with_files
from sottovoce.faces.cli.option_groups import grouped
from sottovoce.privacy.errors import InvalidValue

if TYPE_CHECKING:
    from sottovoce.service.ledger import Budget, Entry, Ledger


@grouped
def again(
    place: Annotated[str, typer.Argument(metavar="LEDGER", help="The ledger: a path or a database address.")],
    entry: Annotated[int | None, typer.Argument(help="The number of its entry, as `ledger show` lists it.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="Instead of the number: the name of the request.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Whose answer, where several data sets used one key.")] = None,
    also: Annotated[
        list[int] | None,
        typer.Option("--with", help="Other entries that answered the same question: all are told as one; repeat it."),
    ] = None,
    *,
    pool: Annotated[bool, typer.Option(help="Tell its groups pooled, as if they had been asked so: free.")] = False,
    compare: shared.Compare = None,
    probability: Annotated[
        list[str] | None,
        typer.Option(metavar="CLAIM", help="Also say how likely a claim is: 'A > B', 'A >= 0.3'; repeat for several."),
    ] = None,
    trend: Annotated[
        bool, typer.Option(help="Also say how rows go on from group to group, with a Bayes factor against no trend.")
    ] = False,
    independence: Annotated[
        bool, typer.Option(help="Also say whether the two columns of counts go together (Cramér's V, Bayes factor).")
    ] = False,
    predict: shared.Predicting = None,
    contrast: shared.Contrasts = None,
    average: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Also average what a column of a regression does, over even records; repeat it."
        ),
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(
            metavar="ENTRY", help="Also say how hazard ratios changed since that regression of earlier times: free."
        ),
    ] = None,
    anchor: Annotated[
        str | None, typer.Option(help="Also check the note kept there: a path, or the URL of another ledger.")
    ] = None,
    output: shared.Output,
) -> None:
    """Tell an answer that was paid for again, and what follows from it: nothing is read, and nothing spent."""
    from sottovoce.service.answers.replayed_answer import answer_again  # noqa: PLC0415 - needs the data extra
    from sottovoce.service.answers.together import told_together  # noqa: PLC0415
    from sottovoce.service.ledger import Ledger  # noqa: PLC0415

    if (entry is None) == (idempotency_key is None):
        raise InvalidValue("say which answer: the number of its entry, as ledger show lists it, or --idempotency-key")
    certain = output.checked(place)
    with Ledger(place, anchor=anchor) as ledger:
        result, budget = _found(ledger, entry, idempotency_key, dataset)
        others = [_found(ledger, number, None, budget.dataset) for number in also or ()]
        before = None if since is None else answer_again(*_found(ledger, since, None, budget.dataset), certain)
    answer = told_together([(result, budget), *others], certain) if others else answer_again(result, budget, certain)
    if pool:
        if not hasattr(answer, "pooled"):
            raise InvalidValue("--pool is for an answer with groups, and this is a regression")
        answer = answer.pooled()
    beside = _beside(answer, compare, probability or (), predict or (), contrast or (), average or ())
    wanted = [name for name, asked in (("trend", trend), ("independence", independence)) if asked]
    if wanted and not hasattr(answer, wanted[0]):
        raise InvalidValue(f"--{wanted[0]} is for an answer with rows, and this is a regression")
    said = {name: getattr(answer, name)().sentences() for name in wanted}
    lines = [*beside.lines, *(" ".join(sentences) for sentences in said.values())]
    beside = ShownAnswer(lines, beside.values | said)
    if before is not None:
        if not (hasattr(answer, "changed_since") and hasattr(before, "changed_since")):
            raise InvalidValue("--since is for two regressions of hazards, and this is another answer")
        changed = of_changes(answer, before)
        beside = ShownAnswer([*beside.lines, *changed.lines], beside.values | changed.values)
    after = f"Asked of {budget.dataset} on {result.at[:10]}; told again, nothing was spent."
    show_with_files(answer, beside, {"dataset": budget.dataset}, after, output)


def _found(ledger: Ledger, entry: int | None, key: str | None, dataset: str | None) -> tuple[Entry, Budget]:
    from sottovoce.service.answers.replayed_answer import entry_of, entry_under  # noqa: PLC0415 - needs the data extra

    every = ledger.budgets()
    if dataset is not None:
        mine = ledger.budget(dataset).id
        every = [item for item in every if mine in (item.id, item.whole)]
    return entry_under(ledger, key, every) if entry is None else entry_of(ledger, entry, every)  # type: ignore[arg-type]


def _beside(
    answer: Any,
    compare: tuple[str, str] | None,
    claims: Sequence[str],
    rows: Sequence[str],
    contrasts: Sequence[str],
    averages: Sequence[str],
) -> ShownAnswer:
    """Return what follows from an answer, in lines and in plain values."""
    regression = hasattr(answer, "contrast")
    wrong = (compare is not None or claims) if regression else (rows or contrasts or averages)
    if wrong:
        kind, right = (
            ("a regression", "--predict, --contrast, --average") if regression else ("rows", "--compare, --probability")
        )
        raise InvalidValue(f"this answer is {kind}: what follows from it is asked with {right}")
    return of_regression(answer, rows, contrasts, averages) if regression else of_rows(answer, compare, claims)
