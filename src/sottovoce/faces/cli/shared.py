"""Options that several commands take, in groups, and the curator that they describe."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.faces.cli.console import AsJson
from sottovoce.faces.cli.output_files import check_places
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.privacy.shares import read_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sottovoce.mechanisms import Mechanism
    from sottovoce.records.facts import Facts
    from sottovoce.service.answers import Question
    from sottovoce.service.answers.paid_verbs import PaidVerbs
    from sottovoce.service.curator import Curator
    from sottovoce.service.curator.privacy_unit import Protected
    from sottovoce.service.curator.readable_records import Records

    Payable = Callable[[PaidVerbs], Mechanism]
    """Which mechanism a budget would pay."""
    Check = Callable[[Protected], Callable[[Records], Payable]]
    """What is to be asked, put beside the facts, then beside the table."""

__all__ = ["Output", "Paying", "Source", "beside", "check_payable", "of_questions", "paid", "places", "unpaid"]


Data = Annotated[str, typer.Argument(help="A Parquet, CSV or Arrow file, or a database address.")]
PublicFacts = Annotated[
    Path | None, typer.Option(help="The TOML file that says what is public of the columns. (By default beside DATA.)")
]
FactsFile = Annotated[Path | None, typer.Option(help="The facts, a TOML file: bounds and categories.")]
Beside = Annotated[str | None, typer.Option(help="The ledger: a path or a database address. (By default beside DATA.)")]
Opening = Annotated[str | None, typer.Option(help="Opens the budget the first time, such as approx:1,1e-6.")]
SecretN = Annotated[
    str | None, typer.Option(help="'private' where how many records there are is a secret; fixed with the budget.")
]
PublicN = Annotated[int | None, typer.Option(help="The number of records, which is public.")]
Protect = Annotated[
    str | None,
    typer.Option(help="'rows' where a row is to be protected, not a person, though the facts say whose it is."),
]
Grows = Annotated[
    bool | None,
    typer.Option(
        "--grows", help="The data gain and correct records while their budget goes on; declared once, for good."
    ),
]
Period = Annotated[
    str | None,
    typer.Option(help="Gives each period a budget of its own: 'admitted: monthly', a category, bands; for good."),
]
Spend = Annotated[str, typer.Option(help="A share of the budget such as 5%, or a promise.")]
Level = Annotated[str, typer.Option(help="How often intervals are to hold the truth, such as 80%.")]
Baseline = Annotated[str, typer.Option(help="How often a guess comes true without it, such as 1%.")]
Kept = Annotated[str, typer.Option(help="Imagined: the part of the records that the condition keeps, such as 30%.")]
DatasetName = Annotated[str | None, typer.Option(help="The name of the data in the ledger.")]
Key = Annotated[
    str | None, typer.Option(help="A name for this request: asked again under it, it is answered and charged once.")
]
Again = Annotated[
    bool, typer.Option("--again", help="Tell the earlier answer to this very question, free, where there is one.")
]
Who = Annotated[str | None, typer.Option(help="Who asks. (By default your user name.)")]
Purpose = Annotated[str | None, typer.Option(help="What the answer is for; recorded, and on the card.")]
Compare = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="ROW ROW", help="Also say how two rows differ, such as A B or 'A / yes' 'B / yes'."),
]
Predicting = Annotated[
    list[str] | None,
    typer.Option(help="Also say what is expected of such a row: 'age=70, ward=Surgery'; repeat for several."),
]
Contrasts = Annotated[
    list[str] | None,
    typer.Option(help="Also combine terms: 'age=10, sex=1', or one less another, 'age - sex'; repeat for several."),
]
Plot = Annotated[Path | None, typer.Option(help="Also draw the answer into this file (PNG, SVG, PDF).")]
Csv = Annotated[Path | None, typer.Option(help="Also write the table to this CSV file.")]
Latex = Annotated[Path | None, typer.Option(help="Also write the table in LaTeX into this file.")]
Markdown = Annotated[Path | None, typer.Option(help="Also write the table in Markdown into this file.")]
Docx = Annotated[Path | None, typer.Option(help="Also write the table into this Word document.")]
Methods = Annotated[bool, typer.Option("--methods", help="Also print a paragraph for a paper's methods section.")]
By = Annotated[
    list[str] | None,
    typer.Option(help="Group by this column, or by bands such as 'age: under 18, 18-64, 65+'; repeat for several."),
]
Where = Annotated[str | None, typer.Option(help="Ask only about records for which this holds.")]


@dataclass(frozen=True)
class Source:
    """A table, its public facts, its ledger, and who is protected."""

    data: Data
    facts: PublicFacts = None
    ledger: Beside = None
    protect: Protect = None
    dataset: DatasetName = None

    @property
    def places(self) -> tuple[str, Path, str]:
        """Where the data, their facts and their ledger lie."""
        return places(self.data, self.facts, self.ledger)

    def curator(self, check: Check, **options: Any) -> contextlib.AbstractContextManager[Curator]:
        """Return the curator of the table: see `_curator_of`."""
        return _curator_of(self, check, options)


@dataclass(frozen=True)
class Paying(Source):
    """A table whose budget is opened or charged."""

    budget: Opening = None
    n: SecretN = None
    grows: Grows = None
    period: Period = None
    spend: Spend = "5%"
    idempotency_key: Key = None
    again: Again = False
    who: Who = None
    purpose: Purpose = None

    @property
    def paid(self) -> float | Promise:
        """What a question may cost."""
        return paid(self.spend)

    @property
    def named(self) -> dict[str, Any]:
        """What an answer is asked with beside its question."""
        return {"idempotency_key": self.idempotency_key, "purpose": self.purpose, "again": self.again}

    def curator(self, check: Check, **options: Any) -> contextlib.AbstractContextManager[Curator]:
        """Return the curator of the table, whose budget is opened where one is named and there is none."""
        opening = {"n": self.n, "grows": self.grows, "period": self.period, "who": self.who}
        return _curator_of(self, check, opening | options, self.budget)


@dataclass(frozen=True)
class Printed:
    """How a table is shown, and the files that it is written to."""

    level: Level = "95%"
    csv: Csv = None
    latex: Latex = None
    markdown: Markdown = None
    docx: Docx = None
    methods: Methods = False
    as_json: AsJson = False

    def checked(self, *kept: str | Path) -> float:
        """Return the level of the intervals; refuse a file that could not be written, or that would replace another."""
        from sottovoce.inference.cells.intervals import checked_level  # noqa: PLC0415 - needs the data extra

        plot = getattr(self, "plot", None)
        check_places(self.csv, self.latex, self.markdown, self.docx, plot=plot, kept=kept)
        return checked_level(read_share("--level", self.level))


@dataclass(frozen=True)
class Output(Printed):
    """How an answer is shown, and the files that it is written to, a picture among them."""

    plot: Plot = None


def beside(data: str, ending: str) -> Path:
    """Return the file of such an ending that lies beside some data: a file, a folder, or whatever has an address.

    >>> beside("stays/patients.parquet", ".facts.toml").as_posix()
    'stays/patients.facts.toml'
    """
    path = Path(data) if Path(data).name not in ("", "..") else Path(data).resolve()
    if not data or not path.name:
        raise InvalidValue(f"name the data: a file, a folder or the address of a table. Got {data!r}")
    return path.with_suffix(ending)


def places(data: str, facts: Path | None, ledger: str | None) -> tuple[str, Path, str]:
    """Return where the data, their facts and their ledger lie: beside one another unless said otherwise."""
    known = beside(data, ".facts.toml") if facts is None else facts
    return data, known, str(beside(data, ".ledger")) if ledger is None else ledger


def paid(spend: str) -> float | Promise:
    """Return what a question may cost: a share of the budget, or a promise."""
    from sottovoce.service.answers import parse_spend  # noqa: PLC0415 - needs the data extra

    share = parse_spend(spend)
    return parse_promise(share) if isinstance(share, str) else share


def check_payable(
    data: str,
    dataset: str | None,
    records: Records,
    ledger: str,
    promise: Promise,
    whom: Protected,
    n: str | None,
    mechanism_for: Callable[[PaidVerbs], Mechanism],
    draws: int = 1,
) -> None:
    """Raise where a budget that would be opened now could not pay for a mechanism."""
    from sottovoce.service.curator.budget_opening import has_budget  # noqa: PLC0415 - needs the data extra
    from sottovoce.service.curator.unopened_budget import UnopenedBudget  # noqa: PLC0415

    if not has_budget(ledger, dataset, records):
        purse = UnopenedBudget(dataset or data, promise, whom, n)
        purse.ensure_covered(mechanism_for(purse), draws=draws)


def of_questions(
    questions_of: Callable[[Facts], Sequence[Question]],
    spend: float | Promise,
    then: Callable[[Any], object] | None = None,
) -> Check:
    """Return the check of questions about a table, of which the first is paid; `then` looks at each of them."""
    from sottovoce.records.facts import Facts  # noqa: PLC0415
    from sottovoce.records.facts.condition_parser import check_levels  # noqa: PLC0415

    def check(whom: Protected) -> Callable[[Records], Payable]:
        questions = questions_of(whom.facts or Facts({}))
        for question in questions:
            check_levels(question.where, question.facts)
            if then is not None:
                then(question)

        def with_records(records: Records) -> Payable:
            for question in questions:
                records.check(question, question.columns, where=question.where, **whom.asked)
            return lambda purse: purse.mechanism_for(questions[0], spend)

        return with_records

    return check


def unpaid(_: Protected) -> Callable[[Records], Any]:
    """Return a check of what opens no budget: it is about what was released."""
    return lambda _: None


@contextlib.contextmanager
def _curator_of(source: Source, check: Check, options: dict[str, Any], budget: str | None = None) -> Iterator[Curator]:
    """Give the curator of a table; its facts and its ledger lie beside it unless said otherwise.

    What is to be asked is put to `check` first: beside the facts alone, so that a slip in a name is told at once, for
    to open a table takes seconds; then with the table, of which nothing but its schema is read; and it says which
    mechanism a budget would pay. A question that makes no sense, or that could not be paid for, opens no budget.
    """
    from sottovoce.records.facts import read_facts  # noqa: PLC0415
    from sottovoce.service.curator.privacy_unit import Protected  # noqa: PLC0415 - needs the data extra

    data, place, kept = source.places
    with contextlib.ExitStack() as opened:
        if source.facts is None and not place.is_file():
            _records(data, None, opened)  # data that are not there lack more than facts
            raise InvalidValue(f"say --facts FILE, or put the facts beside the data in {place.name}")
        known = read_facts(place)
        whom, promise = Protected.of(known, source.protect), None if budget is None else parse_promise(budget)
        checked = check(whom)
        from sottovoce.service.curator import Curator  # noqa: PLC0415 - opens databases

        records = _records(data, whom.facts, opened)
        mechanism_for = checked(records)
        if promise is not None:
            check_payable(data, source.dataset, records, kept, promise, whom, options.get("n"), mechanism_for)
        opening = options | {"facts": known, "protect": source.protect, "dataset": source.dataset}
        yield opened.enter_context(Curator(records, kept, promise, **opening))


def _records(data: str, facts: Facts | None, opened: contextlib.ExitStack) -> Records:
    from sottovoce.service.curator.readable_records import open_known  # noqa: PLC0415 - opens databases

    return open_known(data, facts, None, opened)
