"""The routes of the API that say what a budget means and buys: explanation, balance, plans of regressions, card."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from sottovoce.faces.server.api import Asking, Name, known_query, serving
from sottovoce.faces.server.budget_meaning import balance, explanation, regression_plan, signed_card
from sottovoce.faces.server.http_errors import RESPONSES
from sottovoce.faces.server.regression_plans import Imagining
from sottovoce.faces.server.schemas import Level, Spend, in_words
from sottovoce.faces.server.verbs import VerbQuestion
from sottovoce.faces.server.work_queue import while_there

__all__ = ["router"]

router = APIRouter(responses=RESPONSES)
"""The routes, of every application."""

_Part = Annotated[float, Field(ge=0, le=1)]
_Spread = Annotated[float, Field(ge=0, le=0.5)]
_Baseline = Annotated[float, Field(ge=1e-9, le=0.5)]
Part = Annotated[_Part, in_words(_Part)]
Spread = Annotated[_Spread, in_words(_Spread)]
Baseline = Annotated[_Baseline, in_words(_Baseline)]
Said = Annotated[
    list[Annotated[str, Field(max_length=300)]],
    Field(max_length=100, examples=[["smoker=20%", "ward:C=5%", "age=0.1"]]),
]
"""What is imagined of columns, in words."""


class ExplanationBody(BaseModel):
    """A budget in plain words, with the numbers behind them."""

    title: str
    sentences: list[str]
    people: int
    before: int
    after: int
    right: float
    sure: int
    so_far: int


class OfferBody(BaseModel):
    """What a share of a budget buys, and what it leaves to a guess."""

    share: float
    width: float
    success: float
    advantage: float
    promise: str
    noise: str
    covered: bool


class BalanceBody(BaseModel):
    """Share, accuracy and risk of a question, from a small share to the whole budget.

    `left` is the share that can still be spent; `whole_limits` says whether everyone's budget, not yours, is short.
    """

    question: str
    parameter: str
    yours: bool
    left: float
    whole_limits: bool
    baseline: float
    curve: list[OfferBody]
    change: str


class RegressionPlanBody(BaseModel):
    """A regression to plan, as it would be asked, and what is imagined of its columns."""

    model_config = ConfigDict(strict=True, extra="forbid")
    formula: Annotated[str, Field(max_length=2000, examples=["smoker ~ age + C(ward)"])]
    where: Annotated[str, Field(max_length=2000)] | None = None
    family: Annotated[str, Field(max_length=100)] | None = None
    prior: Annotated[float, Field(allow_inf_nan=False)] | None = None
    misses: Annotated[float, Field(allow_inf_nan=False)] | None = None
    exposure: Annotated[str, Field(max_length=200)] | None = None
    event: Annotated[str, Field(max_length=200)] | None = None
    cuts: Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(max_length=24)] | None = None
    start: Annotated[str, Field(max_length=200)] | None = None
    spend: Spend = 0.05
    level: Level = 0.95
    imagine: Said = []
    share: Part = 0.5
    spread: Spread | None = None
    kept: Part = 1.0
    records: Annotated[int, Field(ge=1, le=10**9)] | None = None

    def question(self) -> VerbQuestion:
        """Return the regression that would be asked."""
        given = self.model_dump(
            include={"formula", "where", "family", "prior", "misses", "exposure", "event", "cuts", "start"},
            exclude_none=True,
        )
        return VerbQuestion("regress", given, self.spend, self.level)

    def imagining(self) -> Imagining:
        """Return what is said of the records."""
        return Imagining(tuple(self.imagine), self.share, self.spread, self.kept)


class ForeseenBody(BaseModel):
    """What is expected of a term: half its interval, the widest with any draw of the noise, and without privacy."""

    term: str
    width: float
    widest: float
    plain: float


class RegressionPlanAnswer(BaseModel):
    """How wide each term's interval will be, if values are met alike and if they are rare, and what it would cost."""

    dataset: str
    question: str
    n: int
    target: dict[str, Any]
    level: float
    mechanism: dict[str, Any]
    looks: list[float]
    terms: list[ForeseenBody]
    rare: list[ForeseenBody] | None
    assumed: str
    unsaid: list[str]
    hints: list[str]
    cautions: list[str]
    yours: bool
    share: float
    left: float
    whole_limits: bool
    covered: bool


@router.get(
    "/api/v1/datasets/{dataset}/explanation",
    summary="What the budget means, in plain words",
    dependencies=[Depends(known_query)],
    responses={200: {"model": ExplanationBody}},
)
async def explained(
    request: Request,
    caller: Asking,
    dataset: Name,
    baseline: Annotated[Baseline, Query(description="How often a guess comes true without it.")] = 0.01,
) -> JSONResponse:
    service = serving(request)
    telling = service.planning(caller, explanation, service, caller, dataset, baseline)
    return JSONResponse(await while_there(request.receive, telling))


@router.get(
    "/api/v1/datasets/{dataset}/balance",
    summary="Share, accuracy and risk of a question: reads nothing, costs nothing",
    dependencies=[Depends(known_query)],
    responses={200: {"model": BalanceBody}},
)
async def balanced(
    request: Request,
    caller: Asking,
    dataset: Name,
    question: Annotated[str, Query(min_length=1, max_length=2000, description="In words, as `ask` takes it.")],
    imagine: Annotated[Said, Query(description="What a column is imagined to be.")] = [],  # noqa: B006 - never changed
    share: Annotated[Part, Query(description="How often a flag is set.")] = 0.5,
    spread: Annotated[Spread, Query(description="The spread of a number, as a part of its range.")] = 0.25,
    kept: Annotated[Part, Query(description="The part of the records that the condition keeps.")] = 1.0,
    smallest: Annotated[Part | None, Query(description="The part that the smallest group has.")] = None,
) -> JSONResponse:
    service = serving(request)
    imagining = Imagining(tuple(imagine), share, spread, kept, smallest)
    planning = service.planning(caller, balance, service, caller, dataset, question, imagining)
    return JSONResponse(await while_there(request.receive, planning))


@router.post(
    "/api/v1/datasets/{dataset}/regressions/plan",
    summary="How wide each term of a regression will be: reads nothing, costs nothing",
    responses={200: {"model": RegressionPlanAnswer}},
)
async def planned(request: Request, caller: Asking, dataset: Name, body: RegressionPlanBody) -> JSONResponse:
    service = serving(request)
    asked = (service, caller, dataset, body.question(), body.imagining(), body.records)
    planning = service.planning(caller, regression_plan, *asked)
    return JSONResponse(await while_there(request.receive, planning))


@router.get(
    "/api/v1/datasets/{dataset}/card",
    summary="The signed privacy card, one page of HTML; takes the scope admin",
    response_class=HTMLResponse,
)
async def carded(request: Request, caller: Asking, dataset: Name) -> HTMLResponse:
    service = serving(request)
    writing = service.planning(caller, signed_card, service, caller, dataset)
    return HTMLResponse(await while_there(request.receive, writing))
