"""The page of synthetic tables: what was released to a caller, relations to learn, and files to take away."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from sottovoce.faces.server.page.dataset_page import DatasetPage, key_of
from sottovoce.faces.server.page.gate import Gate
from sottovoce.faces.server.page.rendering import Rendering
from sottovoce.faces.server.service import Caller, Service
from sottovoce.faces.server.sharing import PATIENCE, RelationsQuestion, TablesAsked
from sottovoce.inference.synthesis.table_columns import CUT
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.shares import read_share
from sottovoce.service.curator.released_picture import BINS

_WHOLE = re.compile(r"[1-9][0-9]{0,7}")
_SETS = 20
"""How many tables are offered."""


class TablesPage:
    """The page; it reads no record, and learning relations is charged as every answer is."""

    def __init__(self, service: Service, gate: Gate, rendering: Rendering, head: Callable[..., dict[str, Any]]) -> None:
        self._service, self._gate, self._rendering, self._head = service, gate, rendering, head

    def routes(self) -> list[tuple[str, str, Callable[[Request], Coroutine[Any, Any, Response]]]]:
        """Return method, path and handler of each."""
        return [
            ("GET", "/data/{name}/tables", self.show),
            ("POST", "/data/{name}/tables", self.learn),
            ("GET", "/data/{name}/tables/file", self.file),
            ("GET", "/data/{name}/tables/report", self.report),
        ]

    async def show(self, request: Request) -> Response:
        """Show what was released, and the forms."""
        caller, session = await self._gate.caller(request)
        return await self._page(request, caller, self._head(caller, session))

    async def learn(self, request: Request) -> Response:
        """Learn relations, charged once under the key of the form."""
        caller, session = await self._gate.caller(request)
        values = await self._gate.form(request, session)
        head, name, said = self._head(caller, session), request.path_params["name"], None
        try:
            question, key = _question(values), key_of(values)
            if key is None:
                raise InvalidValue("the form was sent without its key; load the page again")
            said = await self._service.sharing.learn(caller, name, question, key)
        except SottovoceError as error:
            return await self._page(request, caller, head, 422, problem=str(error), values=values)
        if said is None:  # the browser sends the same form again: it is charged once
            return await self._page(request, caller, head, 202, waiting=values)
        return await self._page(request, caller, head, learnt=said)

    async def file(self, request: Request) -> Response:
        """Send the tables, or say that they are being drawn."""
        caller, _ = await self._gate.caller(request)
        name = request.path_params["name"]
        path = await self._service.sharing.tables(caller, name, _asked(request))
        if path is None:
            return self._later()
        return FileResponse(path, media_type="application/zip", filename=f"{name}-synthetic.zip")

    async def report(self, request: Request) -> Response:
        """Show the report, or say that it is being made."""
        caller, _ = await self._gate.caller(request)
        path = await self._service.sharing.page(caller, request.path_params["name"], _asked(request))
        return self._later() if path is None else FileResponse(path, media_type="text/html; charset=utf-8")

    def _later(self) -> Response:
        said = "This takes a while, and costs nothing. The page asks again by itself."
        response = self._rendering.message(202, "The tables are being drawn", said)
        response.headers["Refresh"] = f"{PATIENCE:.0f}"
        return response

    async def _page(
        self, request: Request, caller: Caller, head: dict[str, object], status: int = 200, **outcome: object
    ) -> Response:
        name = request.path_params["name"]
        shown = {"problem": None, "waiting": None, "learnt": None, "values": {}} | outcome
        shown |= await _Tables(self._service, caller, name).values()
        return self._rendering.page("tables.html", status, **shown, **head)


class _Tables(DatasetPage):
    """What one caller sees of what was released of one data set."""

    async def values(self) -> dict[str, Any]:
        remaining = await self._remaining()
        try:
            picture, why = await self._service.sharing.picture(self._caller, self._name, None), ""
            relations = [" × ".join(clique) for clique in picture.posterior.relations]
            refused = [f"{source}: {reason}" for source, reason in picture.refused]
        except InvalidValue as error:
            relations, refused, why = [], [], str(error)
        columns = [
            {"name": item.name, "title": item.title}
            for item in self._config.columns.values()
            if isinstance(item.fact, CUT)
        ]
        return {
            "facts": self._facts,
            "relations": relations,
            "refused": refused,
            "why": why,
            "columns": columns,
            "sets": _SETS,
            "bins": BINS,
            "key": f"page-{secrets.token_hex(16)}",
            "may_ask": "ask" in self._caller.scopes and remaining["yours"] is not None,
            **await self._budgets(remaining),
        }


def _question(values: Mapping[str, str]) -> RelationsQuestion:
    columns = tuple(name.removeprefix("columns:") for name in values if name.startswith("columns:"))
    if len(columns) < 2:
        raise InvalidValue("relations are of two columns or more; choose them")
    spend = read_share("what it may cost", f"{values.get('spend', '').strip().rstrip('%').strip()}%")
    return RelationsQuestion(columns, spend, _number(values.get("bins", ""), BINS), key=key_of(values))


def _asked(request: Request) -> TablesAsked:
    given = request.query_params
    kind = given.get("format", "parquet")
    if kind not in ("parquet", "csv"):
        raise InvalidValue("tables are sent as parquet or csv")
    size = given.get("size", "").strip()
    return TablesAsked(None, _number(given.get("sets", ""), _SETS), _number(size, 1) if size else None, kind)  # type: ignore[arg-type]


def _number(text: str, usual: int) -> int:
    if not text.strip():
        return usual
    if not _WHOLE.fullmatch(text.strip()):
        raise InvalidValue(f"{text.strip()[:20]!r} is no whole number above 0")
    return int(text)
