"""Drive an installation from outside of the clone, as a stranger would: the given extras, and nothing else, are there.

``python drive.py server,postgres`` in an empty folder. A part whose extra is missing must say so in one line; nothing
may end in a traceback, an internal error or a page of status 500.
"""

from __future__ import annotations

import csv
import html
import http.cookiejar
import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import typer.main

import sottovoce as sv
from sottovoce.faces.cli import COMMANDS, application
from sottovoce.privacy.errors import NotInstalled

BRINGS = {
    "server": {"data"},
    "demo": {"data", "plots"},
    "models": {"plots", "jax"},
    "regression": {"jax", "sklearn", "formulaic"},
}
"""What an extra has beside itself."""
EXTRAS = {word for word in (sys.argv[1] if len(sys.argv) > 1 else "").split(",") if word}
HERE = EXTRAS | {word for extra in EXTRAS for word in BRINGS.get(extra, ())}
INSTALL = re.compile(r"pip install 'sottovoce\[\w+\]'")
FAULTS = ("Traceback", "internal error")
SECONDS = 30
SCOPES = ("--scope", "read", "--scope", "plan", "--scope", "ask", "--scope", "admin")

FACTS = """\
[smoker]
kind = "flag"
[age]
kind = "number"
low = 18
high = 90
[ward]
kind = "category"
categories = ["A", "B"]
"""
SERVER = """\
[server]
host = "127.0.0.1"
port = {port}
ledger = "served.ledger"
tokens = "served.tokens"
[limits]
answer_grid = 0.05
[datasets.people]
source = "people.csv"
facts = "people.toml"
budget = "approx:1,1e-6"
types = {{ smoker = "boolean", age = "float64", ward = "string" }}
[analysts.ada]
budgets = {{ people = "approx:1,1e-6" }}
"""


def command(*words: str, needs: set[str] = frozenset(), refusal: int = 2) -> str:  # type: ignore[assignment]
    """Run a command; where what it needs is missing, it must say so in one line."""
    done = subprocess.run([sys.executable, "-m", "sottovoce", *words], capture_output=True, text=True, check=False)
    said = f"sottovoce {' '.join(words)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    assert not any(fault in done.stdout + done.stderr for fault in FAULTS), said
    if needs <= HERE:
        assert done.returncode == 0, said
    else:
        assert done.returncode == refusal, said
        assert INSTALL.search(done.stderr), said
        assert done.stderr.strip().count("\n") == 0, said
    return done.stdout


def commands() -> Iterator[tuple[str, ...]]:
    """Yield every command and group of commands."""
    yield ()
    for word in COMMANDS:
        yield (word,)
        command = typer.main.get_command(application(word)).commands[word]  # type: ignore[attr-defined]
        yield from ((word, name) for name in getattr(command, "commands", ()))


def drive_names() -> None:
    """Every public name is there, or says which extra brings it."""
    missing = set()
    for name in sv.__all__:
        try:
            getattr(sv, name)
        except NotInstalled as error:
            assert INSTALL.search(str(error)), (name, error)
            missing.add(name)
    assert not missing or not {"jax", "sklearn"} <= HERE, missing
    print(f"  {len(sv.__all__) - len(missing)} names, {len(missing)} of an extra that is not here")


def drive_commands() -> None:
    """Every command helps, checks itself, and does its work or says what is missing."""
    paths = list(commands())
    for path in paths:
        command(*path, "--help")
    results = json.loads(command("check", "--json"))
    failed = [result for result in results if result["passed"] is False]
    skipped = [result for result in results if result["passed"] is None]
    assert not failed, failed
    assert all(INSTALL.search(result["evidence"]) for result in skipped), skipped
    assert not skipped or "data" not in HERE, skipped
    command("check", "no cost below zero is charged")
    command("demo", "--output", "demo", needs={"data"})
    command("explain", "approx:1,1e-6")
    model = ("--system", "beta-bernoulli:alpha=6,beta=12", "--n", "100", "--target", "approx:1,1e-3")
    command("plan", *model)
    command("plan", *model, "--plot", "plan.png", needs={"plots"})
    command("audit", *model, "--draws", "20000")
    command("audit", "--case", "list")
    command("plan", "mean of age by ward", "--n", "400", "--facts", "people.toml", "--budget", "approx:1,1e-6")
    formula = ("smoker ~ age", "--facts", "people.toml", "--budget", "approx:1,1e-6", "--spend", "30%")
    command("plan", *formula, "--n", "400")
    asked = ("people.csv", "proportion of smoker by ward", "--facts", "people.toml", "--ledger", "people.ledger")
    command("ask", *asked, "--budget", "approx:1,1e-6", needs={"data"})
    if "data" in HERE:
        command("ledger", "show", "people.ledger")
        command("ledger", "verify", "people.ledger")
    command("regress", "people.csv", *formula, "--ledger", "people.ledger", needs={"data"})
    interaction = ("smoker ~ age:ward", *formula[1:], "--ledger", "people.ledger")
    command("regress", "people.csv", *interaction, needs={"data", "formulaic"})
    command("facts", "people.csv", needs={"data"})
    print(f"  {len(paths)} commands, {len(results)} checks, {len(skipped)} of them not tried")


def drive_server() -> None:
    """Every page and every address answers; what is missing is said in words."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    Path("server.toml").write_text(SERVER.format(port=port), encoding="utf-8")
    command("serve", "server.toml", "--check")
    created = command("tokens", "create", "server.toml", "--analyst", "ada", *SCOPES, "--json")
    token = str(json.loads(created)["token"])
    server = subprocess.Popen([sys.executable, "-m", "sottovoce", "serve", "server.toml"], stderr=subprocess.DEVNULL)
    try:
        drive_pages(f"http://127.0.0.1:{port}", token)
    finally:
        server.terminate()
        server.wait(SECONDS)


class Forms(HTMLParser):
    """The forms of a page: where each may be sent, and what it says before anyone types."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[tuple[list[str], dict[str, str]]] = []
        self._select: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a form, one of its fields, or a button that sends it elsewhere."""
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(([given["action"]] if given.get("method") == "post" else [], {}))
        elif self.forms:
            places, fields = self.forms[-1]
            if "formaction" in given:
                places.append(given["formaction"])
            elif tag == "select":
                self._select = given["name"]
            elif tag == "option" and self._select and (self._select not in fields or "selected" in dict(attrs)):
                fields[self._select] = given.get("value", "")
            elif tag == "input" and "name" in given and given.get("type") != "checkbox":
                fields[given["name"]] = given.get("value", "")
            elif tag == "textarea":
                fields[given["name"]] = ""

    def handle_endtag(self, tag: str) -> None:
        """End a list of options."""
        if tag == "select":
            self._select = None


class Browser:
    """Whoever looks at the pages: keeps cookies, and lets no status of 500 or more pass."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(self._cookies)
        self._bearer = {"Authorization": f"Bearer {token}"}
        self.visits = 0

    def visit(self, path: str, form: dict[str, str] | None = None, *, api: bool = False) -> tuple[int, str]:
        """Return the status and the text of a page."""
        sent = None if form is None else urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(self._address + path, sent, self._bearer if api else {})
        if sent is not None:
            request.add_header("Origin", self._address)
        try:
            with self._opener.open(request, timeout=SECONDS) as response:
                status, text = response.status, response.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode(errors="replace")
        assert status < 500, f"{path}: {status}\n{text[-2000:]}"
        self.visits += 1
        return status, text

    def send(self, path: str, **typed: str) -> Iterator[tuple[str, int, str]]:
        """Send every form of a page wherever it may go, with what is typed; return where, the status and the text."""
        for places, fields in Forms(self.visit(path)[1]).forms:
            for place in places:
                if place != "/logout":
                    yield place, *self.visit(place, fields | {k: v for k, v in typed.items() if k in fields})


def drive_pages(address: str, token: str) -> None:
    """Log in; open every address that there is; send every form, and ask a question by each verb and model."""
    from sottovoce.faces.server.app import create_app  # noqa: PLC0415 - an extra
    from sottovoce.faces.server.config import read_config  # noqa: PLC0415

    waited = time.monotonic()
    while True:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=SECONDS).close()
            break
        except OSError:
            assert time.monotonic() - waited < SECONDS, "the server does not start"
            time.sleep(0.2)
    browser = Browser(address, token)
    [(_, status, _)] = browser.send("/login", token=token)
    assert status == 200, status
    sent = list(browser.send("/data/people", column="smoker", by="ward"))
    assert any("answer" in place and status == 200 for place, status, _ in sent), sent
    sent += browser.send("/data/people/models")
    assert all(status == 200 for place, status, _ in sent if "/models" in place or "/plan" in place), sent
    models = browser.visit("/data/people/models")[1]
    assert INSTALL.search(html.unescape(models)) or "jax" in HERE, "the page of models does not say what is missing"
    for verb, typed in VERBS.items():
        sent += browser.send("/data/people", verb=verb, **typed)
    said = [text for _, _, text in browser.send("/data/people", verb="regress", formula="smoker ~ age:ward")]
    assert any(INSTALL.search(html.unescape(text)) for text in said) or "formulaic" in HERE, (
        "no word of what is missing"
    )
    paths = {path for route in create_app(read_config("server.toml")).routes for path in _gettable(route)}
    statuses = {path: browser.visit(path, api=path.startswith(("/api", "/metrics")))[0] for path in sorted(paths)}
    assert all(status in (200, 404, 422) for status in statuses.values()), statuses
    assert sum(status == 200 for status in statuses.values()) >= len(statuses) * 2 // 3, statuses
    print(f"  {browser.visits} pages and answers of the server, {len(paths)} addresses")


def _gettable(route: Any) -> Iterator[str]:
    """Yield the address of a route that is there to be looked at, with the names of what is here."""
    if "GET" in (getattr(route, "methods", None) or ()):
        names = {"name": "people", "dataset": "people", "entry": "1"}
        if route.path.startswith("/static"):
            names["name"] = "page.css"
        yield re.sub(r"{(\w+)(:\w+)?}", lambda found: names.get(found[1], "1"), route.path)


VERBS = {
    "proportion": {"column": "smoker"},
    "mean": {"column": "age"},
    "counts": {"column": "ward"},
    "quantiles": {"column": "age"},
    "regress": {"formula": "smoker ~ age"},
}


def main() -> None:
    """Drive all that there is."""
    assert Path(sv.__file__).is_relative_to(sys.prefix), f"not the installed package: {sv.__file__}"
    print(f"extras: {', '.join(sorted(EXTRAS)) or 'none'}", flush=True)
    Path("people.toml").write_text(FACTS, encoding="utf-8")
    with Path("people.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["smoker", "age", "ward"])
        rows.writerows([k % 3 == 0, 18 + k % 70, "AB"[k % 2]] for k in range(400))
    drive_names()
    drive_commands()
    if "server" in HERE:
        drive_server()


if __name__ == "__main__":
    main()
