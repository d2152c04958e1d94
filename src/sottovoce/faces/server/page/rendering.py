"""Templates and files of the page, and refusals as a page says them."""

from __future__ import annotations

import functools
import math
import re
from importlib import resources

import jinja2
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sottovoce.faces.client.errors import (
    AnswerLost,
    CallerLeft,
    NotAllowed,
    NotFound,
    ProviderUnavailable,
    ServerStopping,
    TooManyRequests,
)
from sottovoce.faces.server.logs import log_failure
from sottovoce.faces.server.page.charts import count
from sottovoce.faces.server.page.gate import LoggedOut
from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable, SottovoceError
from sottovoce.privacy.shares import percent
from sottovoce.service.ledger import EntryPending

_STATIC = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "balance.js": "text/javascript; charset=utf-8",
    "theme.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_PERCENT = re.compile(r"[\d.]+ %")
_REFUSALS: tuple[tuple[type[SottovoceError], int, str], ...] = (
    (NotFound, 404, "Nothing here"),
    (NotAllowed, 403, "Not allowed"),
    (TooManyRequests, 429, "Too many requests"),
    (CallerLeft, 499, "Nobody waits any more"),
    (ServerStopping, 503, "Not available now"),
    (ProviderUnavailable, 503, "Not available now"),
    (AnswerLost, 500, "The answer was lost"),
)


def unbroken(text: str) -> Markup:
    """Return words of which every number stays on one line with its sign, however narrow the screen is.

    >>> str(unbroken("69.9 % left: about 2 more"))
    '<span class="unbroken">69.9 %</span> left: about 2 more'
    """
    return Markup(_PERCENT.sub(r'<span class="unbroken">\g<0></span>', str(escape(text))))


def _share(share: float) -> Markup:
    return unbroken(percent(share))


@functools.cache
def _templates() -> jinja2.Environment:
    """Return the templates, which are compiled once for all offices of a process."""
    result = jinja2.Environment(
        loader=jinja2.PackageLoader("sottovoce.faces.server.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    result.filters |= {"percent": _share, "count": count, "unbroken": unbroken}
    result.globals["inf"] = math.inf
    return result


class Rendering:
    """Turns values into pages; whatever is put into a template is escaped."""

    def __init__(self, office: str, root: str = "") -> None:
        self._office, self._root, self._templates = office, root, _templates()
        folder = resources.files("sottovoce.faces.server.page") / "static"
        self._files = {name: (folder / name).read_bytes() for name in _STATIC}

    def file(self, name: str) -> Response:
        """Return a style sheet, a script or the icon."""
        if name not in _STATIC:
            return self.refused(NotFound("There is no such file."))
        return Response(self._files[name], media_type=_STATIC[name], headers={"Cache-Control": "max-age=300"})

    def page(self, template: str, status: int = 200, **values: object) -> HTMLResponse:
        """Return a whole page."""
        values = {"office": self._office, "root": self._root, "analyst": None, "seal": ""} | values
        return HTMLResponse(self._templates.get_template(template).render(values), status)

    def sent(self, path: str) -> Response:
        """Send a browser to a page of ours."""
        return RedirectResponse(self._root + path, 303)

    def part(self, name: str, values: dict[str, object], status: int) -> HTMLResponse:
        """Return one part of a page, for the script to put in its place."""
        body = self._templates.get_template(f"{name}.html").render({"root": self._root} | values)
        return HTMLResponse(f'<div id="{name}">{body}</div>', status)

    def refused(self, error: SottovoceError) -> Response:
        """Return the page that says why something was refused; to a caller without a session, the way to log in."""
        if isinstance(error, LoggedOut):
            return self.sent("/login")
        if isinstance(error, EntryPending):
            shown = (
                "This very question was sent before and counts as spent. Its answer will be in the list of what was "
            )
            shown += "asked; if it is still not there in some minutes, tell your administrator."
            return self.message(409, "The answer is being made", shown)
        if isinstance(error, LedgerUnavailable | LedgerCorrupt):
            log_failure(error)
            shown = "The ledger cannot be used now. If your question was charged, its entry is in the history."
            return self.message(503, "Not available now", shown)
        status, heading = next(
            ((code, words) for kind, code, words in _REFUSALS if isinstance(error, kind)), (422, "This makes no sense")
        )
        return self.message(status, heading, str(error))

    def message(self, status: int, heading: str, message: str) -> Response:
        """Return a page that says one thing."""
        return self.page("message.html", status, heading=heading, message=message)
