"""Two pages of a data set: how accuracy and risk move each other, and its privacy card."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sottovoce.faces.client.errors import CallerLeft, NotAllowed, NotFound, ServerStopping, TooManyRequests
from sottovoce.faces.client.reach import LIMITED
from sottovoce.faces.server.budget_meaning import balance, first_question, signed_card
from sottovoce.faces.server.page.charts import Chart, ChartAxis, number
from sottovoce.faces.server.page.gate import Gate
from sottovoce.faces.server.page.rendering import Rendering
from sottovoce.faces.server.regression_plans import Imagining
from sottovoce.faces.server.service import Service
from sottovoce.faces.server.work_queue import while_there
from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable, SottovoceError
from sottovoce.privacy.shares import percent
from sottovoce.records.facts.assumed_distribution import split_imagined
from sottovoce.service.answers.card_page import style

__all__ = ["MeaningPages"]

_PASSED_ON = (LedgerUnavailable, LedgerCorrupt, NotAllowed, NotFound, CallerLeft, ServerStopping, TooManyRequests)


class MeaningPages:
    """The pages; `head` gives what every page says of its caller."""

    def __init__(self, service: Service, gate: Gate, rendering: Rendering, head: Callable[..., dict[str, Any]]) -> None:
        self._service, self._gate, self._rendering, self._head = service, gate, rendering, head

    def routes(self) -> list[tuple[str, str, Callable[[Request], Coroutine[Any, Any, Response]]]]:
        """Return the method, the path and the handler of each."""
        return [("GET", "/data/{name}/balance", self.balance), ("GET", "/data/{name}/card", self.card)]

    async def balance(self, request: Request) -> Response:
        """Show share, accuracy and risk of the question in the address, or of a first one."""
        caller, session = await self._gate.caller(request)
        name = request.path_params["name"]
        facts = self._service.dataset(caller, name)
        text = request.query_params.get("question", "")[:2000] or first_question(self._service, caller, name)
        imagine = request.query_params.get("imagine", "")[:2000]
        result: dict[str, object] | None = None
        problem = None
        try:
            said = Imagining(tuple(split_imagined(imagine)))
            work = self._service.planning(caller, balance, self._service, caller, name, text, said)
            result = await while_there(request.receive, work)
        except _PASSED_ON:
            raise
        except SottovoceError as error:
            problem = str(error)
        values: dict[str, object] = {"facts": facts, "question": text, "imagine": imagine, "problem": problem}
        values["balance"] = result and balance_view(result)
        return self._rendering.page("balance.html", 200 if result else 422, **values, **self._head(caller, session))

    async def card(self, request: Request) -> Response:
        """Show the signed card. It brings its own style, which the page's policy is told the hash of."""
        caller, _ = await self._gate.caller(request)
        work = self._service.planning(caller, signed_card, self._service, caller, request.path_params["name"])
        page: str = await while_there(request.receive, work)
        known = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'sha256-{known}'; frame-ancestors 'none'; base-uri 'none'"
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})


def balance_view(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows: rows to read, a picture with both curves, and its points for the sliders."""
    offers = found["curve"]
    picture, points = _picture(offers, found["baseline"], found["parameter"])
    rows = [
        {
            "share": percent(item["share"]),
            "width": number(item["width"]),
            "people": _people(item["success"]),
            "covered": item["covered"],
        }
        for item in offers
    ]
    near = min(range(len(offers)), key=lambda index: abs(math.log(offers[index]["share"] / 0.05)))
    return {
        "question": found["question"],
        "parameter": found["parameter"],
        "whose": "your budget" if found["yours"] else "the whole budget",
        "left": percent(found["left"]) + " is left" + (f", {LIMITED}" if found["whole_limits"] else ""),
        "unspent": found["left"],
        "baseline": _people(found["baseline"]),
        "rows": rows,
        "change": found["change"],
        "picture": picture,
        "points": json.dumps(points),
        "start": near,
        "first": rows[near],
        "last": len(offers) - 1,
    }


def _people(chance: float) -> str:
    return _up(1000 * chance)


def _up(people: float) -> str:
    """Return a number of people, rounded up to a tenth: what is said is never less than what is so."""
    return f"{math.ceil(10 * people - 1e-6) / 10:g}"


def _picture(
    offers: Sequence[Mapping[str, Any]], baseline: float, parameter: str
) -> tuple[Markup, list[dict[str, float]]]:
    """Return both curves over the share of the budget: accuracy by the axis on the left, risk by its own words."""
    widths = [max(item["width"], 1e-300) for item in offers]
    risks = [1000 * item["success"] for item in offers]
    low, high = min(widths) / 1.4, max(widths) * 1.15  # room for a word below the curve
    y = ChartAxis(low, high, "known to ±", log=True)
    scale = ChartAxis(0.0, max(risks) * 1.1, "")
    chart = Chart(
        ChartAxis(offers[0]["share"] * 100, 100.0, "share of the budget, %", log=True),
        y,
        "Accuracy and risk",
        f"{parameter}: with {percent(offers[0]['share'])} of the budget known to ± {number(widths[0])}, with all of it "
        f"to ± {number(widths[-1])}; a guess right for {_people(baseline)} of 1,000 people before is then right for "
        f"{_up(risks[0])} and for {_up(risks[-1])} at most",
        width=560.0,
        height=300.0,
    )

    def level(risk: float) -> float:
        """Return the height on the axis of the left at which a risk is drawn."""
        return float(low * (high / low) ** scale.place(risk))

    chart.line([(100 * item["share"], level(1000 * baseline)) for item in offers], "mark")
    chart.line([(100 * item["share"], width) for item, width in zip(offers, widths, strict=True)], "one")
    chart.line([(100 * item["share"], level(risk)) for item, risk in zip(offers, risks, strict=True)], "two")
    chart.note(offers[0]["share"] * 100, chart.at(1.0, level(1000 * baseline))[1] + 10, f"{_people(baseline)} before")
    chart.note(100.0, chart.at(1.0, level(risks[-1]))[1] - 12, f"{_up(risks[-1])} of 1,000")
    chart.note(100.0, chart.at(1.0, widths[-1])[1] + 14, f"± {number(widths[-1])}")
    points = []
    for item, width, risk in zip(offers, widths, risks, strict=True):
        x_left, top = chart.at(100 * item["share"], width)
        points.append(
            {
                "share": item["share"],
                "width": width,
                "risk": risk,
                "x": round(x_left, 2),
                "accuracy": round(top, 2),
                "danger": round(chart.at(100 * item["share"], level(risk))[1], 2),
            }
        )
    drawn = chart.svg()
    dots = Markup('<circle class="dot one" id="dot-width" r="6"/><circle class="dot two" id="dot-risk" r="6"/></svg>')
    return Markup(str(drawn).replace("</svg>", str(dots))), points
