"""Errors as HTTP says them: a status, a kind, one sentence; never a private value, never a traceback."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException

from sottovoce.faces.client.errors import (
    AnswerLost,
    CallerLeft,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    ProviderUnavailable,
    ServerStopping,
    TooManyRequests,
    kind_of,
)
from sottovoce.faces.client.response_bodies import Problem
from sottovoce.faces.server.logs import log_failure
from sottovoce.faces.server.metrics import Metrics
from sottovoce.faces.server.pacing import Bucket
from sottovoce.privacy.errors import BudgetExceeded, LedgerCorrupt, LedgerUnavailable, SottovoceError, SourceUnavailable
from sottovoce.service.ledger import EntryPending, KeyTaken, State

_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (NotAuthenticated, 401),
    (NotAllowed, 403),
    (NotFound, 404),
    (BudgetExceeded, 409),
    (KeyTaken, 409),
    (EntryPending, 409),
    (TooManyRequests, 429),
    (CallerLeft, 499),
    (ServerStopping, 503),
    (ProviderUnavailable, 503),
    (LedgerUnavailable, 503),
    (LedgerCorrupt, 503),
    (SourceUnavailable, 503),
    (AnswerLost, 500),
    (SottovoceError, 422),
)
_TITLES = {
    400: "Bad request",
    401: "No valid token",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "Refused",
    413: "Too large",
    422: "The question makes no sense",
    429: "Too many requests",
    500: "A fault of ours",
    503: "Not available now",
}

_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is no name that is known here",
    "json_invalid": "is no JSON",
    "string_type": "must be a text",
    "model_type": 'must be an object, such as {"name": "value"}',
    "model_attributes_type": 'must be an object, such as {"name": "value"}',
}
"""What pydantic finds wrong, by its kind, in words of ours; the rest begins with what must be."""

_UNREAD = "body: cannot be read as JSON: a number has thousands of digits, brackets nest too deeply, or it is no UTF-8"

RESPONSES: dict[int | str, dict[str, object]] = {
    status: {
        "description": _TITLES[status],
        "content": {"application/problem+json": {"schema": TypeAdapter(Problem).json_schema()}},
    }
    for status in (400, 401, 403, 404, 405, 408, 409, 413, 422, 429, 503)
}


def problem(status: int, kind: str, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return a refusal."""
    content = {
        "type": f"urn:sottovoce:{kind}",
        "title": _TITLES.get(status, "Refused"),
        "status": status,
        "detail": detail,
    }
    return JSONResponse(content, status, headers, media_type="application/problem+json")


def _problem_of(error: SottovoceError, metrics: Metrics, failures: Bucket, address: str) -> JSONResponse:
    """Return the refusal that an error of ours is, to whoever asked from an address."""
    status = next(code for kind, code in _STATUS if isinstance(error, kind))
    headers, detail = {}, str(error)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
        metrics.count("failed_logins")
        with contextlib.suppress(TooManyRequests):  # refused from the next request on
            failures.take(address)
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = f"{error.retry_after:.0f}"
    if isinstance(error, EntryPending):
        headers["Retry-After"], detail = "1", _pending(error)
    if isinstance(error, ServerStopping | SourceUnavailable | ProviderUnavailable):  # logged where it was found
        headers["Retry-After"] = "5"
    elif status >= 500:
        log_failure(error)
    if isinstance(error, LedgerUnavailable | LedgerCorrupt) and not isinstance(error, EntryPending):
        detail = "the ledger cannot be used now; if your question was charged, its entry is in the history"
    return problem(status, kind_of(error), detail, headers)


def _pending(error: EntryPending) -> str:
    """Return what whoever asked can do about an answer that is not there; only an administrator can close its entry."""
    which = "" if error.entry is None else f", entry {error.entry.id},"
    if error.entry is not None and error.entry.state is State.LOST:
        return f"the answer under this key{which} was lost and counts as spent; to pay for another, use a new key"
    return (
        f"the answer under this key{which} is being made and counts as spent; ask for it again in a moment. If it "
        "never comes, its process died: tell your administrator, and to pay for another use a new key"
    )


def install_problems(app: FastAPI) -> None:
    """Answer every error of ours and of FastAPI's as a problem."""

    @app.exception_handler(SottovoceError)
    def ours(request: Request, error: SottovoceError) -> JSONResponse:
        state, address = request.app.state, request.client.host if request.client else ""
        return _problem_of(error, state.service.metrics, state.failures, address)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        del request
        return problem(422, "invalid-request", "; ".join(map(_wrong, error.errors()[:5])))

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> JSONResponse:
        del request
        if error.detail == "There was an error parsing the body":  # FastAPI's words for what no reader of JSON takes
            return problem(422, "invalid-request", _UNREAD)
        kind = _TITLES.get(error.status_code, "refused").lower().replace(" ", "-")
        return problem(error.status_code, kind, str(error.detail), dict(error.headers or {}))


def _wrong(one: Mapping[str, Any]) -> str:
    """Return what is wrong with one part of a request, and where."""
    said = one["msg"].removeprefix("Value error, ").replace("Input should", "must")
    return f"{'.'.join(map(str, one['loc']))}: {_WORDS.get(one['type'], said)}"
