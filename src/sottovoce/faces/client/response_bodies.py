"""What a server answers with, in JSON: said to the OpenAPI document by the server, and read by the client."""

from __future__ import annotations

from typing import (
    Any,
    NotRequired,  # which pydantic asks for below Python 3.12
)

from typing_extensions import TypedDict


class Problem(TypedDict):
    """Why a request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


class ColumnBody(TypedDict):
    """A column that may be asked about."""

    name: str
    title: str
    type: str
    systems: list[str]
    facts: dict[str, Any]


class DatasetBody(TypedDict):
    """A data set's public facts."""

    name: str
    title: str
    description: str
    n: int | None
    grows: bool
    period: str | None
    periods: list[str] | None
    unit: str
    rows_of_persons: bool
    budget: dict[str, Any]
    mechanisms: list[str]
    conditions: bool
    verbs: list[dict[str, Any]]
    columns: list[ColumnBody]


class BudgetBody(TypedDict):
    """A budget, what is left of it, and the share that is spent; by period where the data have any.

    What is left is then that of the period that has most.
    """

    budget: dict[str, Any]
    filter: dict[str, Any]
    remaining: dict[str, Any]
    spent: float
    periods: NotRequired[dict[str, float] | None]


class RemainingBody(TypedDict):
    """Your own budget, null where you have none, and the one that all analysts share."""

    yours: BudgetBody | None
    whole: BudgetBody


class LeftBody(TypedDict):
    """What is left in words, such as ``50 % left: about 10 more like the last``."""

    yours: str | None
    whole: str


class PlanAnswer(TypedDict):
    """What each mechanism would promise, cost and tell, best forecast first."""

    dataset: str
    n: int | None
    system: dict[str, Any]
    target: dict[str, Any]
    mean: Any
    choices: list[dict[str, Any]]
    remaining: RemainingBody


class ReceiptBody(TypedDict):
    """A signed receipt: Ed25519 over the exact bytes of `signed`, in base64, by the key of this fingerprint."""

    signed: str
    signature: str
    key: str


class CostBody(TypedDict):
    """What an answer cost, in each budget's own units."""

    yours: float
    whole: float


class AnswerBody(TypedDict):
    """An answer: the release, what it cost, what remains, and its receipt."""

    entry: int
    dataset: str
    at: str
    release: dict[str, Any]
    summary: dict[str, Any]
    cost: CostBody
    remaining: RemainingBody
    receipt: ReceiptBody


class PredictedBody(TypedDict):
    """What a regression expects of a row, with its interval; a row for each class where there are several.

    `held` names what lies beyond its public bounds, and the bound that it is held at.
    """

    row: str
    expected: list[dict[str, Any]]


class VerbAnswerBody(AnswerBody):
    """An answer by verb: one row a group, each with its interval, and the release from which the rows are made.

    `whose` says what a person counts as, where rows are those of persons; `notes` is all that one must know to read
    the rows, that among it: of which value a regression speaks, what it was set against, where numbers were cut.
    `earlier` is the entry that had answered the very same question before this one was paid for; `together` are the
    entries that rows and release are told of, where they are told of several.
    """

    verb: str
    question: str
    level: float
    whose: str | None
    notes: list[str]
    predicted: list[PredictedBody] | None
    share: float
    table: list[dict[str, Any]] | None
    earlier: int | None
    together: NotRequired[list[int] | None]


class DescriptionBody(TypedDict):
    """A description: one table of several answers, each an entry of its own under one price.

    `asked` has its columns, groups and condition, `table` a row for every number, `lines` the table as a paper prints
    it, `differences` how each group differs from the first; `answers` are the answers by verb that it was made of.
    """

    dataset: str
    verb: str
    question: str
    asked: dict[str, Any]
    level: float
    entries: list[int]
    share: float
    notes: list[str]
    table: list[dict[str, Any]] | None
    differences: list[dict[str, Any]]
    lines: dict[str, Any]
    answers: list[dict[str, Any]]
    remaining: RemainingBody


class HistoryBody(TypedDict):
    """Entries of the ledger, newest first."""

    entries: list[dict[str, Any]]


class KeyBody(TypedDict):
    """The public key that receipts are checked with."""

    key: str
    fingerprint: str
