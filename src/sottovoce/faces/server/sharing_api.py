"""The routes of synthetic tables, and of what is known without a question being paid for."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from sottovoce.faces.server.api import Asking, Key, Name, known_query, serving
from sottovoce.faces.server.http_errors import RESPONSES
from sottovoce.faces.server.schemas import Level, Spend
from sottovoce.faces.server.sharing import PATIENCE, RelationsQuestion, TablesAsked
from sottovoce.service.curator.released_picture import BINS

__all__ = ["router"]

router = APIRouter(responses=RESPONSES)
"""The routes under /api/v1/datasets/{dataset}/synthesis, /known and /released."""

_Column = Annotated[str, Field(max_length=200)]
_MOST_COLUMNS = 200


class RelationsBody(BaseModel):
    """What relations are to be learnt of: columns, what it may cost, and into how many parts numbers are cut."""

    model_config = ConfigDict(strict=True, extra="forbid")
    columns: Annotated[list[_Column], Field(min_length=2, max_length=_MOST_COLUMNS)] | None = None
    spend: Spend = 0.05
    bins: Annotated[int, Field(ge=2, le=64)] = BINS
    purpose: Annotated[str, Field(max_length=300, examples=["A table for students"])] | None = None


class UnderWayBody(BaseModel):
    """Work that goes on: ask again, of relations under the same key, and nothing is charged twice."""

    state: Literal["under way"]
    key: str | None


class RelationsAnswer(BaseModel):
    """Relations that were learnt: the entry, its share of your budget, and the margins that were released."""

    model_config = ConfigDict(extra="allow")
    state: Literal["learnt"]
    entry: int
    share: float
    relations: list[list[str]]


class ReportBody(BaseModel):
    """What synthetic tables are made of: `pairs` has whether two columns' relation is kept, and its error."""

    model_config = ConfigDict(extra="allow")
    synthetic: Literal[True]
    dataset: str
    entries: list[int]
    sets: int
    rows: int
    kept: list[list[str]]
    pairs: list[dict[str, Any]]
    notes: list[str]


class KnownBody(BaseModel):
    """What is known of a question: a row each with its interval, and the entries it rests on; nothing was spent."""

    question: str
    level: float
    rows: list[dict[str, Any]]
    entries: list[int]
    notes: list[str]


class ReleasedBody(BaseModel):
    """All noisy counts that were released to you, as one picture: a client answers and draws from it."""

    dataset: str
    released: dict[str, Any]
    entries: list[int]
    refused: list[list[str]]
    promise: dict[str, Any] | None


class TablesQuery(BaseModel):
    """Which tables: their columns (all that is known of by default), how many, their rows, and up to which entry."""

    model_config = ConfigDict(extra="forbid")
    columns: Annotated[list[_Column], Field(max_length=_MOST_COLUMNS)] = []
    sets: Annotated[int, Field(ge=2, le=200)] = 20
    size: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    format: Literal["parquet", "csv"] = "parquet"
    entry: Annotated[int, Field(ge=1, le=2**53)] | None = None

    def asked(self) -> TablesAsked:
        """Return what is asked."""
        return TablesAsked(tuple(self.columns) or None, self.sets, self.size, self.format, self.entry)


Tables = Annotated[TablesQuery, Query()]
_UNDER_WAY: dict[int | str, dict[str, Any]] = {202: {"model": UnderWayBody, "description": "Under way"}}


def _under_way(key: str | None = None) -> JSONResponse:
    return JSONResponse({"state": "under way", "key": key}, 202, {"Retry-After": f"{PATIENCE:.0f}"})


@router.post(
    "/api/v1/datasets/{dataset}/synthesis",
    summary="Learn relations for synthetic tables: charged once under its key, which asks again for what takes long",
    responses={200: {"model": RelationsAnswer}, **_UNDER_WAY},
)
async def learn(
    request: Request, caller: Asking, dataset: Name, body: RelationsBody, idempotency_key: Key = None
) -> Response:
    key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
    columns = None if body.columns is None else tuple(body.columns)
    question = RelationsQuestion(columns, body.spend, body.bins, body.purpose, key)
    said = await serving(request).sharing.learn(caller, dataset, question, key)
    return _under_way(key) if said is None else JSONResponse(said)


@router.get(
    "/api/v1/datasets/{dataset}/synthesis",
    summary="What synthetic tables of all that was released to you keep, and how well: free",
    responses={200: {"model": ReportBody}, **_UNDER_WAY},
)
async def report(request: Request, caller: Asking, dataset: Name, which: Tables) -> Response:
    said = await serving(request).sharing.report(caller, dataset, which.asked())
    return _under_way() if said is None else JSONResponse(said)


@router.get(
    "/api/v1/datasets/{dataset}/synthesis/tables",
    summary="Synthetic tables in a zip file, each with its receipt: free",
    response_class=FileResponse,
    responses={200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}, **_UNDER_WAY},
)
async def tables(request: Request, caller: Asking, dataset: Name, which: Tables) -> Response:
    path = await serving(request).sharing.tables(caller, dataset, which.asked())
    if path is None:
        return _under_way()
    return FileResponse(path, media_type="application/zip", filename=f"{dataset}-synthetic.zip")


@router.get(
    "/api/v1/datasets/{dataset}/known",
    summary="A share or a count from what was released to you: free",
    dependencies=[Depends(known_query)],
    responses={200: {"model": KnownBody}},
)
async def known(
    request: Request,
    caller: Asking,
    dataset: Name,
    question: Annotated[str, Query(max_length=2000, examples=["share of smoker by ward"])],
    level: Annotated[Level, Query(description="Of the intervals.")] = 0.95,
) -> Response:
    return JSONResponse(await serving(request).sharing.known(caller, dataset, question, level))


@router.get(
    "/api/v1/datasets/{dataset}/released",
    summary="All counts that were released to you, as one picture: free",
    dependencies=[Depends(known_query)],
    responses={200: {"model": ReleasedBody}},
)
async def released(
    request: Request,
    caller: Asking,
    dataset: Name,
    entry: Annotated[int | None, Query(ge=1, le=2**53, description="The last entry that it takes in.")] = None,
) -> Response:
    return JSONResponse(await serving(request).sharing.released(caller, dataset, entry))
