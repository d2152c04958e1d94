"""What goes over the wire, as the OpenAPI document describes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sottovoce.server.queries.parsing import LONGEST
from sottovoce.server.questions import LEAST, MOST, Question

__all__ = [
    "AnswerBody",
    "AskBody",
    "DatasetBody",
    "HistoryBody",
    "KeyBody",
    "PlanAnswer",
    "PlanBody",
    "Problem",
    "ReceiptBody",
    "RemainingBody",
]

Positive = Annotated[float, Field(ge=LEAST, le=MOST, allow_inf_nan=False)]
Real = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
_STRICT = ConfigDict(strict=True, extra="forbid")


class SystemBody(BaseModel):
    """A system's kind and the numbers of its prior. Bounds and categories are the administrator's."""

    model_config = _STRICT
    kind: Literal["beta-bernoulli", "dirichlet-categorical", "gamma-poisson", "gamma-exponential", "normal-mean"]
    alpha: Positive | Annotated[list[Positive], Field(min_length=2, max_length=64)] | None = None
    beta: Positive | None = None
    shape: Positive | None = None
    rate: Positive | None = None
    variance: Positive | None = None
    prior_variance: Positive | None = None
    prior_mean: Real | Annotated[list[Real], Field(min_length=1, max_length=64)] | None = None


class PlanBody(BaseModel):
    """What to plan for."""

    model_config = _STRICT
    system: SystemBody
    target: Annotated[str, Field(max_length=100, examples=["approx:0.5,1e-6", "pure:0.5"])]
    column: Annotated[str, Field(max_length=200)] | None = None
    where: Annotated[str, Field(max_length=2000, examples=["age > 40 and region in ('N', 'S')"])] | None = None
    mean: Real | Annotated[list[Real], Field(min_length=1, max_length=64)] | None = None

    def question(self) -> Question:
        """Return the question to plan for."""
        settings = self.system.model_dump(exclude_none=True)
        return Question(system=settings, target=self.target, column=self.column, where=self.where)


class AskBody(BaseModel):
    """A question. Each answer is charged before any record is read."""

    model_config = _STRICT
    system: SystemBody
    target: Annotated[str, Field(max_length=100, examples=["approx:0.5,1e-6", "pure:0.5"])]
    mechanism: Literal["direct", "diffused", "concentrated", "tempered", "laplace", "gaussian"] = "diffused"
    column: Annotated[str, Field(max_length=200)] | None = None
    where: Annotated[str, Field(max_length=2000)] | None = None
    missing: Real | bool | Annotated[str, Field(max_length=200)] | None = None
    query: Annotated[str, Field(max_length=LONGEST, examples=["theta", "probability(x > 3)"])] = "theta"
    draws: Annotated[int, Field(ge=1, le=100_000)] = 1

    def question(self) -> Question:
        """Return the question asked."""
        return Question(**(self.model_dump() | {"system": self.system.model_dump(exclude_none=True)}))


class Problem(BaseModel):
    """Why a request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


class ColumnBody(BaseModel):
    """A column that may be asked about."""

    name: str
    title: str
    type: str
    systems: list[str]
    bounds: list[float] | None
    categories: list[str | int | bool] | None
    radius: float | None
    of: list[str]


class DatasetBody(BaseModel):
    """A data set's public facts."""

    name: str
    title: str
    description: str
    n: int
    budget: dict[str, Any]
    mechanisms: list[str]
    conditions: bool
    columns: list[ColumnBody]


class BudgetBody(BaseModel):
    """A budget, what is left of it, and the share that is spent."""

    budget: dict[str, Any]
    remaining: dict[str, Any]
    spent: float


class RemainingBody(BaseModel):
    """Your own budget, null where you have none, and the one that all analysts share."""

    yours: BudgetBody | None
    whole: BudgetBody


class PlanAnswer(BaseModel):
    """What each mechanism would promise, cost and tell, best forecast first."""

    dataset: str
    n: int
    system: dict[str, Any]
    target: dict[str, Any]
    mean: Any
    choices: list[dict[str, Any]]
    remaining: RemainingBody


class ReceiptBody(BaseModel):
    """A signed receipt: Ed25519 over the exact bytes of `signed`, in base64, by the key of this fingerprint."""

    signed: str
    signature: str
    key: str


class CostBody(BaseModel):
    """What an answer cost, in each budget's own units."""

    yours: float
    whole: float


class AnswerBody(BaseModel):
    """An answer: the release, what it cost, what remains, and its receipt."""

    entry: int
    dataset: str
    at: str
    release: dict[str, Any]
    summary: dict[str, Any]
    cost: CostBody
    remaining: RemainingBody
    receipt: ReceiptBody


class HistoryBody(BaseModel):
    """Entries of the ledger, newest first."""

    entries: list[dict[str, Any]]


class KeyBody(BaseModel):
    """The public key that receipts are checked with."""

    key: str
    fingerprint: str
