"""The routes of the page: each reads a request, asks the service, and renders what it says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sottovoce.faces.client.errors import NotAllowed, NotAuthenticated, NotFound
from sottovoce.faces.server.page.admin_page import AdminPage
from sottovoce.faces.server.page.gate import Gate
from sottovoce.faces.server.page.meaning_page import MeaningPages
from sottovoce.faces.server.page.model_page import ModelPage
from sottovoce.faces.server.page.rendering import Rendering
from sottovoce.faces.server.page.sessions import Session
from sottovoce.faces.server.page.sign_in import SignIn
from sottovoce.faces.server.page.tables_page import TablesPage
from sottovoce.faces.server.page.verb_forms import level_of, row_of
from sottovoce.faces.server.page.verb_page import VerbPage
from sottovoce.faces.server.page.views import gauges
from sottovoce.faces.server.service import Caller, Service
from sottovoce.faces.server.work_queue import while_there
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.service.answers.catalogue import CATALOGUE

__all__ = ["install_page"]

_MOST_TOGETHER = 100
Handler = Callable[[Request], Awaitable[Response]]


def install_page(app: FastAPI, service: Service) -> None:
    """Add the page to an application whose `state` has the buckets of turns and of failed logins."""
    app.router.routes.extend(_Page(service, Gate(service, app.state.turns, app.state.failures)).routes())


class _Page:
    """The page of one service."""

    def __init__(self, service: Service, gate: Gate) -> None:
        self._service, self._gate = service, gate
        self._rendering = Rendering(service.config.title, service.config.path_prefix)
        oidc = service.config.oidc
        self._sign_in = SignIn(service, gate, self._rendering) if oidc is not None and oidc.redirect_uri else None

    def routes(self) -> list[Route]:
        """Return the routes; a refusal in any of them becomes a page that says why."""
        routes: list[tuple[str, str, Handler]] = [
            ("GET", "/static/{name}", self.static),
            ("GET", "/login", self.login),
            ("POST", "/login", self.log_in),
            ("POST", "/logout", self.log_out),
            ("GET", "/", self.home),
            ("GET", "/docs", self.docs),
            ("GET", "/data/{name}", self.dataset),
            ("POST", "/data/{name}/answer", self.answer),
            ("POST", "/data/{name}/foresee", self.foresee),
            ("GET", "/data/{name}/answers/{entry}", self.table),
            ("GET", "/data/{name}/models", self.models),
            ("POST", "/data/{name}/plan", self.plan),
            ("POST", "/data/{name}/ask", self.ask),
            ("GET", "/data/{name}/receipts/{entry}", self.receipt),
            *AdminPage(self._service, self._gate, self._rendering, self._head).routes(),
            *MeaningPages(self._service, self._gate, self._rendering, self._head).routes(),
            *TablesPage(self._service, self._gate, self._rendering, self._head).routes(),
        ]
        routes += [] if self._sign_in is None else self._sign_in.routes()
        return [self._route(method, path, handler) for method, path, handler in routes]

    def _route(self, method: str, path: str, handler: Handler) -> Route:
        async def endpoint(request: Request) -> Response:
            request.scope["route"] = route  # the log and the metrics name it
            try:
                return await handler(request)
            except SottovoceError as error:
                return self._rendering.refused(error)

        route = Route(path, endpoint, methods=[method])
        return route

    async def static(self, request: Request) -> Response:
        return self._rendering.file(request.path_params["name"])

    async def login(self, request: Request) -> Response:
        leaving = self._sign_in is not None and "out" in request.query_params
        way_out = await self._sign_in.way_out() if self._sign_in is not None and leaving else None
        return self._login_page(request, "", 200, way_out)

    def _login_page(self, request: Request, message: str, status: int, way_out: str | None = None) -> Response:
        visitor, seal = self._gate.greet()
        oidc = self._service.config.oidc
        provider = None if self._sign_in is None or oidc is None else oidc.title
        said = {"message": message, "seal": seal, "provider": provider, "way_out": way_out}
        response = self._rendering.page("login.html", status, **said)
        self._gate.remember(response, request, visitor)
        return response

    async def log_in(self, request: Request) -> Response:
        try:
            token = await self._gate.log_in(request)
        except (InvalidValue, NotAllowed, NotAuthenticated) as error:
            status = {InvalidValue: 422, NotAuthenticated: 401}.get(type(error), 403)
            return self._login_page(request, str(error), status)
        response = self._rendering.sent("/")
        self._gate.admit(response, request, token)
        return response

    async def log_out(self, request: Request) -> Response:
        _, session = await self._gate.caller(request)
        await self._gate.form(request, session)
        response = self._rendering.sent("/login" if self._sign_in is None else "/login?out=yes")
        await self._gate.dismiss(response, request, session)
        return response

    def _head(self, caller: Caller, session: Session) -> dict[str, Any]:
        return {"analyst": self._service.config.analysts[caller.analyst].title, "seal": self._gate.seal(session)}

    async def home(self, request: Request) -> Response:
        caller, session = await self._gate.caller(request)
        result = [
            {"facts": facts, "gauges": gauges(await self._service.run(self._service.remaining, caller, facts["name"]))}
            for facts in self._service.datasets(caller)
        ]
        return self._rendering.page(
            "home.html", datasets=result, admin="admin" in caller.scopes, **self._head(caller, session)
        )

    async def docs(self, request: Request) -> Response:
        values = {"document": request.app.openapi(), "verbs": [CATALOGUE[word] for word in CATALOGUE]}
        return self._rendering.page("docs.html", **values)

    async def dataset(self, request: Request) -> Response:
        caller, session = await self._gate.caller(request)
        page = VerbPage(self._service, caller, request.path_params["name"])
        number = request.query_params.get("answer")
        rows = [request.query_params.get(name, "") for name in ("first", "second")]
        both = (_entry(rows[0], request), _entry(rows[1], request)) if any(rows) else None
        row = row_of(request.query_params)
        outcome, status = None, 200
        if number is not None:
            others = [_entry(other, request) for other in request.query_params.getlist("with")[:_MOST_TOGETHER]]
            level = level_of(request.query_params)
            outcome, status = await page.again(_entry(number, request), both, row, level, others)
        return await self._page(page, {}, self._head(caller, session), outcome, status)

    async def answer(self, request: Request) -> Response:
        caller, session = await self._gate.caller(request)
        values = await self._gate.form(request, session)
        page = VerbPage(self._service, caller, request.path_params["name"])
        outcome, status = await page.ask(values)
        return await self._page(page, values, self._head(caller, session), outcome, status)

    async def foresee(self, request: Request) -> Response:
        caller, session = await self._gate.caller(request)
        values = await self._gate.form(request, session)
        page = VerbPage(self._service, caller, request.path_params["name"])
        outcome, status = await while_there(request.receive, page.foresee(values))
        return await self._page(page, values, self._head(caller, session), outcome, status)

    async def table(self, request: Request) -> Response:
        caller, _ = await self._gate.caller(request)
        page, entry = VerbPage(self._service, caller, request.path_params["name"]), request.path_params["entry"]
        number = _entry(entry, request)
        headers = {"Content-Disposition": f'attachment; filename="answer-{number}.csv"'}
        text = await page.table(number, level_of(request.query_params))
        return Response(text, media_type="text/csv; charset=utf-8", headers=headers)

    async def models(self, request: Request) -> Response:
        caller, session = await self._gate.caller(request)
        page = ModelPage(self._service, caller, request.path_params["name"])
        return await self._while_there(request, self._shown(page, {}, self._head(caller, session), quick=True))

    @staticmethod
    async def _while_there(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
        shown: Response = await while_there(request.receive, work)
        return shown

    async def plan(self, request: Request) -> Response:
        caller, session = await self._gate.caller(request)
        values = await self._gate.form(request, session)
        page = ModelPage(self._service, caller, request.path_params["name"])
        pace = request.headers.get("x-plan")  # from the script, as one types: first what is quick, then the rest
        if pace in ("quick", "whole"):
            shown = await while_there(request.receive, page.values(values, quick=pace == "quick"))
            return self._rendering.part("plan", shown, 200)
        return await self._while_there(request, self._shown(page, values, self._head(caller, session)))

    async def ask(self, request: Request) -> Response:
        caller, session = await self._gate.caller(request)
        values = await self._gate.form(request, session)
        page = ModelPage(self._service, caller, request.path_params["name"])
        outcome, status = await page.ask(values)
        return await self._shown(page, values, self._head(caller, session), outcome, status)

    async def _shown(
        self,
        page: ModelPage,
        values: dict[str, str],
        head: dict[str, object],
        outcome: dict[str, object] | None = None,
        status: int = 200,
        *,
        quick: bool = False,
    ) -> Response:
        shown = await page.values(values, outcome, quick=quick) | await page.history() | head
        return self._rendering.page("models.html", status, **shown)

    async def _page(
        self,
        page: VerbPage,
        values: dict[str, str],
        head: dict[str, object],
        outcome: dict[str, object] | None = None,
        status: int = 200,
    ) -> Response:
        shown = await page.values(values, outcome) | await page.history() | head
        return self._rendering.page("dataset.html", status, **shown)

    async def receipt(self, request: Request) -> Response:
        caller, _ = await self._gate.caller(request)
        name = request.path_params["name"]
        entry = _entry(request.path_params["entry"], request)
        receipt = await self._service.run(self._service.receipt, caller, name, entry)
        headers = {"Content-Disposition": f'attachment; filename="receipt-{entry}.json"'}
        return JSONResponse(receipt, headers=headers)


def _entry(text: str, request: Request) -> int:
    """Return the number of an entry in an address, or raise `NotFound`."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise NotFound(f"there is no answer {text[:20]!r} of {request.path_params['name']} for you")
    return int(text)
