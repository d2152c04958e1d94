"""The routes of the API: each reads a request, asks the service, and writes what it says."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import Field

from sottovoce.faces.client.response_bodies import (
    AnswerBody,
    DatasetBody,
    DescriptionBody,
    HistoryBody,
    KeyBody,
    LeftBody,
    PlanAnswer,
    ReceiptBody,
    RemainingBody,
    VerbAnswerBody,
)
from sottovoce.faces.client.wire import KEY
from sottovoce.faces.server.http_errors import RESPONSES
from sottovoce.faces.server.schemas import MOST_ROWS, AskBody, Level, PlanBody, VerbBody
from sottovoce.faces.server.service import Caller, Service
from sottovoce.faces.server.work_queue import while_there
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts.row_parser import LONGEST

__all__ = ["Asking", "Name", "caller_of", "known_query", "router", "serving"]

router = APIRouter(responses=RESPONSES)
"""The routes under /api/v1, with health and metrics, of every application, whose service they ask for."""

_bearer = HTTPBearer(auto_error=False, description="A token from `sottovoce tokens create`.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
Name = Annotated[str, Path(max_length=64, description="The name of a data set.")]
Number = Annotated[int, Path(ge=1, le=2**53, description="The number of an entry.")]
Rows = Annotated[int, Query(ge=0, le=10_000, description="How many records to make up.")]
Seed = Annotated[int, Query(ge=0, le=2**53, description="The same seed, the same records.")]
RowsInWords = Annotated[
    list[Annotated[str, Field(max_length=LONGEST)]],
    Query(max_length=MOST_ROWS, description="Rows to predict for, such as age=70, ward=Surgery."),
]
OtherEntries = Annotated[
    list[Annotated[int, Field(ge=1, le=2**53)]],
    Query(alias="with", max_length=100, description="Other entries that answered it: all are told as one."),
]
Key = Annotated[
    str | None,
    Header(
        pattern=f"^{KEY.pattern}$",
        description="A name of your own for this very question: a retry gets the same release and is charged once.",
    ),
]


def serving(request: Request) -> Service:
    """Return the service of the application that is asked."""
    service: Service = request.app.state.service
    return service


async def caller_of(request: Request, credentials: Credentials) -> Caller:
    """Return who asks, within the limits of their token."""
    result = await serving(request).admitted(credentials.credentials if credentials else "")
    request.state.caller = result
    request.app.state.turns.take(result.token)
    return result


Asking = Annotated[Caller, Depends(caller_of)]


async def known_query(request: Request, caller: Asking) -> None:
    """Refuse what the query of a request names and its route does not take: it would go unheard."""
    del caller  # who is asked for first
    known = [item.alias for item in request.scope["route"].dependant.query_params]
    if unknown := [shown(name).strip("'") for name in request.query_params if name not in known]:
        raise RequestValidationError(
            [{"type": "extra_forbidden", "loc": ("query", item), "msg": ""} for item in unknown]
        )


async def _answered(request: Request, caller: Caller, dataset: str, question: Any, key: str | None) -> Response:
    text = await serving(request).answer(caller, dataset, question, key, request.receive)
    return Response(text, media_type="application/json")


@router.get("/health", tags=["operation"], summary="Whether ledger and records answer")
async def health(request: Request) -> JSONResponse:
    service = serving(request)
    problem = await service.run(service.problem)
    return JSONResponse({"status": problem or "ok"}, 503 if problem else 200)


@router.get("/metrics", tags=["operation"], summary="Counters for Prometheus", response_class=PlainTextResponse)
async def metrics(request: Request, caller: Asking) -> PlainTextResponse:
    service = serving(request)
    service.require(caller, "admin")
    text = await service.run(service.metrics_text)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/api/v1/key", summary="The key that receipts are checked with", responses={200: {"model": KeyBody}})
async def key(request: Request) -> JSONResponse:
    signer = serving(request).signer
    return JSONResponse({"key": signer.public_key.decode(), "fingerprint": signer.fingerprint})


@router.get("/api/v1/datasets", summary="Data sets: public facts", responses={200: {"model": list[DatasetBody]}})
async def datasets(request: Request, caller: Asking) -> JSONResponse:
    return JSONResponse(serving(request).datasets(caller))


@router.get("/api/v1/datasets/{dataset}", summary="One data set", responses={200: {"model": DatasetBody}})
async def dataset_facts(request: Request, caller: Asking, dataset: Name) -> JSONResponse:
    return JSONResponse(serving(request).dataset(caller, dataset))


@router.get("/api/v1/datasets/{dataset}/remaining", summary="What is left", responses={200: {"model": RemainingBody}})
async def remaining(request: Request, caller: Asking, dataset: Name) -> JSONResponse:
    service = serving(request)
    return JSONResponse(await service.run(service.remaining, caller, dataset))


@router.get("/api/v1/datasets/{dataset}/left", summary="What is left, in words", responses={200: {"model": LeftBody}})
async def left(request: Request, caller: Asking, dataset: Name) -> JSONResponse:
    service = serving(request)
    return JSONResponse(await service.run(service.left, caller, dataset))


@router.get(
    "/api/v1/datasets/{dataset}/dummy",
    summary="Made-up records of the same shape, to try code on: made from the public facts alone, free",
    dependencies=[Depends(known_query)],
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
async def dummy(request: Request, caller: Asking, dataset: Name, n: Rows = 100, seed: Seed = 0) -> PlainTextResponse:
    service = serving(request)
    text = await service.run(service.dummy, caller, dataset, n, seed)
    return PlainTextResponse(text, media_type="text/csv; charset=utf-8")


@router.get("/api/v1/datasets/{dataset}/history", summary="What was asked", responses={200: {"model": HistoryBody}})
async def history(request: Request, caller: Asking, dataset: Name) -> JSONResponse:
    service = serving(request)
    return JSONResponse({"entries": await service.run(service.history, caller, dataset)})


@router.get(
    "/api/v1/datasets/{dataset}/answers/{entry}/receipt",
    summary="The signed receipt of an answer",
    responses={200: {"model": ReceiptBody}},
)
async def receipt(request: Request, caller: Asking, dataset: Name, entry: Number) -> JSONResponse:
    service = serving(request)
    return JSONResponse(await service.run(service.receipt, caller, dataset, entry))


@router.post(
    "/api/v1/datasets/{dataset}/plan",
    summary="Compare mechanisms: reads nothing, costs nothing",
    responses={200: {"model": PlanAnswer}},
)
async def plan(request: Request, caller: Asking, dataset: Name, body: PlanBody) -> JSONResponse:
    service = serving(request)
    planning = service.planning(caller, service.plan, caller, dataset, body.question(), body.mean)
    return JSONResponse(await while_there(request.receive, planning))


@router.post(
    "/api/v1/datasets/{dataset}/ask",
    summary="Ask: charged, drawn, recorded, answered",
    responses={200: {"model": AnswerBody}},
)
async def ask(request: Request, caller: Asking, dataset: Name, body: AskBody, idempotency_key: Key = None) -> Response:
    return await _answered(request, caller, dataset, body.question(), idempotency_key)


@router.post(
    "/api/v1/datasets/{dataset}/answers",
    summary="Ask by verb: a posterior with an interval in every row",
    responses={200: {"model": VerbAnswerBody | DescriptionBody}},
)
async def answer(
    request: Request, caller: Asking, dataset: Name, body: VerbBody, idempotency_key: Key = None
) -> Response:
    return await _answered(request, caller, dataset, body.question(), idempotency_key)


@router.get(
    "/api/v1/datasets/{dataset}/answers/{entry}",
    summary="An answer by verb once more, and what a regression expects of rows: free",
    dependencies=[Depends(known_query)],
    responses={200: {"model": VerbAnswerBody}},
)
async def again(
    request: Request,
    caller: Asking,
    dataset: Name,
    entry: Number,
    predict: RowsInWords = [],  # noqa: B006 - never changed
    level: Annotated[Level, Query(description="Of the intervals.")] = 0.95,
    others: OtherEntries = [],  # noqa: B006 - never changed
) -> JSONResponse:
    service = serving(request)
    return JSONResponse(await service.again(caller, dataset, entry, predict=predict, level=level, others=others))
