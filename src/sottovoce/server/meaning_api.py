"""The routes of the API that say what a budget means: explanation, balance, card."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel

from sottovoce.server.api import Asking, Name, serving
from sottovoce.server.lines import while_there
from sottovoce.server.meaning import balance, explanation, signed_card
from sottovoce.server.problems import RESPONSES

__all__ = ["router"]

router = APIRouter(responses=RESPONSES)
"""The routes, of every application."""


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


class BalanceBody(BaseModel):
    """Share, accuracy and risk of a question, from a small share to the whole budget."""

    question: str
    parameter: str
    yours: bool
    left: float
    baseline: float
    curve: list[OfferBody]


@router.get(
    "/api/v1/datasets/{dataset}/explanation",
    summary="What the budget means, in plain words",
    responses={200: {"model": ExplanationBody}},
)
async def explained(
    request: Request,
    caller: Asking,
    dataset: Name,
    baseline: Annotated[float, Query(ge=1e-9, le=0.5)] = 0.01,
) -> JSONResponse:
    service = serving(request)
    telling = service.planning(caller, explanation, service, caller, dataset, baseline)
    return JSONResponse(await while_there(request.receive, telling))


@router.get(
    "/api/v1/datasets/{dataset}/balance",
    summary="Share, accuracy and risk of a question: reads nothing, costs nothing",
    responses={200: {"model": BalanceBody}},
)
async def balanced(
    request: Request,
    caller: Asking,
    dataset: Name,
    question: Annotated[str, Query(min_length=1, max_length=2000, description="In words, as `ask` takes it.")],
) -> JSONResponse:
    service = serving(request)
    planning = service.planning(caller, balance, service, caller, dataset, question)
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
