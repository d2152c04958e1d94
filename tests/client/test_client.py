"""The client against a live server: a curator's verbs, the same answers, errors of ours, one charge however often."""

from __future__ import annotations

import contextlib
import inspect
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import sottovoce
from sottovoce.faces.client import Client, NotAllowed, NotAuthenticated, NotFound, ServerUnreachable, TooManyRequests
from sottovoce.faces.client.errors import error_of, kind_of
from sottovoce.faces.server.config import Config
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, SottovoceError
from sottovoce.privacy.promises import PureDP, RenyiDP
from sottovoce.records.facts import Cells, Facts
from sottovoce.service.answers import Answer, Regression
from sottovoce.service.answers.trade_off import TradeOff
from sottovoce.service.answers.verbs import Verbs
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import EntryPending, KeyTaken, Ledger
from support.offices import served, token_for, write_office
from support.ports import free_port


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Config:
    limits = "answer_grid = 0.005\nfailures_per_minute = 100000"
    return write_office(tmp_path_factory.mktemp("office"), whole="renyi:8,1000", each="renyi:8,500", limits=limits)


@pytest.fixture(scope="module")
def server(office: Config) -> Iterator[httpx.Client]:
    with served(office) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: httpx.Client, office: Config) -> Client:
    return Client(str(server.base_url), token_for(office), "patients")


class Proxy:
    """A middleman that misbehaves as told, one manner a connection, and then passes everything on."""

    def __init__(self, port: int, *manners: str) -> None:
        self.target, self.manners, self.seen = port, list(manners), 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._pass, args=(caller,), daemon=True).start()

    def _pass(self, caller: socket.socket) -> None:
        self.seen += 1
        manner = self.manners.pop(0) if self.manners else "pass"
        with caller, contextlib.suppress(OSError):
            if manner == "refuse":
                return
            request = self._read(caller)
            if manner not in ("pass", "drop"):
                caller.sendall(manner.encode())
                return
            with socket.create_connection(("127.0.0.1", self.target)) as there:
                there.sendall(request)
                reply = b""
                while piece := there.recv(65536):
                    reply += piece
            if manner == "pass":
                caller.sendall(reply)

    @staticmethod
    def _read(caller: socket.socket) -> bytes:
        text = b""
        while b"\r\n\r\n" not in text:
            text += caller.recv(65536)
        head, _, body = text.partition(b"\r\n\r\n")
        length = next(
            (int(one.split(b":")[1]) for one in head.split(b"\r\n") if one.lower()[:15] == b"content-length:"), 0
        )
        while len(body) < length:
            body += caller.recv(65536)
        return head + b"\r\n\r\n" + body

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def proxy(server: httpx.Client) -> Iterator[Proxy]:
    made = Proxy(server.base_url.port or 0)
    yield made
    made.close()


VERBS = [
    "proportion",
    "mean",
    "rate",
    "counts",
    "quantiles",
    "survival",
    "regress",
    "plan",
    "ask",
    "share_for",
    "balance",
]


@pytest.mark.parametrize("name", VERBS)
def test_the_verbs_are_the_curators(name: str) -> None:
    assert inspect.signature(getattr(Client, name)) == inspect.signature(getattr(Curator, name))
    assert isinstance(inspect.getattr_static(Verbs, name), type(lambda: None))


def test_an_answer_is_the_one_that_a_curator_gives(client: Client, server: httpx.Client, office: Config) -> None:
    answer = client.mean("age", by="ward", where="age >= 40", spend=RenyiDP(8, 20))
    assert type(answer) is Answer
    assert list(answer.table.columns) == ["ward", "estimate", "low", "high", "privacy_share"]
    assert answer.difference("N", "S").low < answer.difference("N", "S").high
    assert answer.share == pytest.approx(20 / 500, rel=1e-6)
    assert answer.plot() is not None and "ward" in answer._repr_html_()
    assert Answer.from_dict(answer.to_dict()).rows == answer.rows
    headers = {"Authorization": f"Bearer {token_for(office)}"}
    told = server.get(f"/api/v1/datasets/patients/answers/{answer.entry}", headers=headers).json()
    for said, made in zip(told["table"], answer.rows, strict=True):
        assert said == pytest.approx(made)
    assert client.again(answer.entry).rows == answer.rows
    statement = client.receipt(answer.entry)
    assert set(statement) == {"signed", "signature", "key"}


def test_every_verb_and_words_too(client: Client) -> None:
    some = RenyiDP(8, 2)
    assert 0 < client.proportion("smoker", spend=some).rows[0]["estimate"] < 1
    assert len(client.rate("visits", exposure="wait", by="ward", spend=some).rows) == 3
    assert len(client.counts(["ward", "smoker"], spend=some).rows) == 6
    curves = client.survival("wait", event="smoker", by="ward", cuts=[1, 2], spend=some)
    assert len(curves.rows) == 6 and curves.at_risk is not None and client.again(curves.entry).rows == curves.rows
    cells = Cells(client.facts, {"age": 4, "ward": ...})
    assert client.counts(cells, spend=some).question.cells == cells
    with pytest.raises(InvalidValue, match="in words cells are all values"):
        client.counts(Cells(client.facts, {"age": 4, "ward": ["N", "S"]}), spend=some)
    apart = Cells(client.facts, {"age": 4, "ward": ...}, missing="cell")
    assert client.counts(apart, spend=some).question.cells == apart
    described = client.describe(["age", "smoker"], by="ward", spend=0.02)
    assert len(described.entries) == 4 and described.paper_lines()[1][0][0] == "age, mean (SD)"
    assert client.describe(["age", "smoker"], by="ward", spend=0.02, again=True).rows == described.rows
    for by in ("age: under 40, 40+", Cells(client.facts, {"age": [0, 40, 100]})):
        told = client.mean("wait", by=by, spend=some)
        assert [row["age"] for row in told.rows] == ["under 40", "40 and over"]
    with pytest.raises(InvalidValue, match="mean takes no 'spent'; did you mean 'spend'"):
        client.mean("age", spent=0.1)
    with pytest.raises(InvalidValue, match="rng= is for a curator"):
        client.mean("age", rng=1)
    assert [row["quantile"] for row in client.quantiles("age", (0.1, 0.9), spend=some).rows] == [0.1, 0.9]
    assert client.ask("pooled mean of age by ward", spend=0.001).question.pool
    assert client.asked("mean", column="age", spend="0.1%", level=0.5).level == 0.5
    assert client.history()[0]["request"]["asked"] == "mean of age"
    client.mean("age", spend=some, purpose="the annual report")
    first, left = client.mean("wait", by="smoker", spend=some), client.left()
    assert client.mean("wait", by="smoker", spend=some, again=True).entry == first.entry and client.left() == left
    second = client.mean("wait", by="smoker", spend=some)
    assert f"entry {first.entry} answered this very" in second.notes[-1] and "told here too" in second.notes[-1]
    both = client.together([first.entry, second.entry])
    assert both.rows == second.rows and both.rows != client.again(second.entry).rows
    with pytest.raises(InvalidValue, match="answers to one question"):
        client.together([first.entry, client.mean("age", spend=some).entry])
    with pytest.raises(InvalidValue, match="name the entries"):
        client.together(3)
    assert client.regress("smoker ~ age", spend=some, again=True).earlier is None
    with pytest.raises(InvalidValue, match="again= is True or False"):
        client.mean("age", again=3)
    client.mean("age", spend=RenyiDP(8, 3), purpose="the annual report")
    assert client.history()[0]["request"]["purpose"] == "the annual report"


def test_a_regression_comes_back_whole(client: Client) -> None:
    found = client.regress("smoker ~ age + C(ward)", spend=RenyiDP(8, 5), level=0.9)
    assert type(found) is Regression and found.level == 0.9
    assert found.table["term"].tolist() == ["Intercept", "age", "C(ward)[T.S]", "C(ward)[T.E]"]
    assert found.contrast("C(ward)[T.S]", "C(ward)[T.E]").low < found.contrast("C(ward)[T.S]", "C(ward)[T.E]").high
    assert client.again(found.entry).table["high"].tolist() != found.table["high"].tolist()  # at 95 %
    assert client.again(found.entry, level=0.9).table.equals(found.table)
    with pytest.raises(InvalidValue, match="level must lie between 0 and 1"):
        client.again(found.entry, level=95)
    rows, left = {"age": [30, 70], "ward": ["N", "E"]}, client.remaining()
    later = client.again(found.entry).predict(rows, level=0.9)
    assert later.equals(found.predict(rows)) and (later["low"] < later["high"]).all() and client.remaining() == left
    with pytest.raises(InvalidValue, match="no column 'nope'"):
        client.regress("smoker ~ nope")
    with pytest.raises(InvalidValue, match="part="):
        client.regress("smoker ~ age", part=object())  # type: ignore[arg-type]


def test_what_is_left_and_what_it_means(client: Client) -> None:
    client.mean("age", spend=0.01)
    assert "% left: about" in client.left()
    assert isinstance(client.remaining(), RenyiDP)
    assert client.share(0.1).epsilon == pytest.approx(50, rel=1e-6)
    assert "1,000 people" in str(client.explain())


def test_the_share_that_an_accuracy_needs_is_forecast_for_free(client: Client) -> None:
    before = client.remaining()
    balance = TradeOff(client.question("mean", "age", by="ward"), client.n or 0, RenyiDP(8, 500))
    assert 0 < client.share_for("mean of age by ward", 5.0) == balance.for_width(5.0).share < 1
    assert client.plan("mean of age by ward", spend="10%") == balance.at(0.1)
    assert client.balance("mean of age by ward").for_risk(0.5) == balance.for_risk(0.5)
    assert client.remaining() == before
    with pytest.raises(InvalidValue, match="part= is for a curator"):
        client.share_for("mean of age", 5.0, part=object())  # type: ignore[arg-type]


def test_dummy_records_try_the_same_code_for_free(client: Client, tmp_path: Path) -> None:
    made = client.dummy(300, seed=1, missing=0.1)
    assert client.dummy(300, seed=1, missing=0.1).equals(made) and not client.dummy(300, seed=2).equals(made)
    with Curator(made, tmp_path / "x.ledger", PureDP(5.0), facts=client.facts, dataset="dummy") as practice:
        tried = practice.mean("age", by="ward", spend=0.5)
    assert list(tried.table.columns) == list(client.mean("age", by="ward", spend=RenyiDP(8, 1)).table.columns)


def test_a_lost_reply_is_asked_for_again_and_charged_once(proxy: Proxy, office: Config) -> None:
    lossy = Client(proxy.url, token_for(office, "bob"), "patients")
    lossy._wire._sleep = lambda _: None
    before, proxy.manners = len(lossy.history()), ["drop", "refuse", "drop"]
    answer = lossy.mean("age", spend=RenyiDP(8, 1))
    assert proxy.manners == []
    entries = lossy.history()
    assert len(entries) == before + 1 and entries[0]["entry"] == answer.entry


def test_a_key_of_ones_own_lasts_and_belongs_to_one_question(client: Client) -> None:
    first = client.mean("age", spend=RenyiDP(8, 1), idempotency_key="monday")
    assert client.mean("age", spend=RenyiDP(8, 1), idempotency_key="monday").entry == first.entry
    with pytest.raises(KeyTaken, match="another request"):
        client.mean("wait", spend=RenyiDP(8, 1), idempotency_key="monday")


@pytest.mark.parametrize("key", ["", "x" * 201, "é", "two words", "a\nb", 3, "a\n"])
def test_a_key_that_no_header_holds_is_refused_here(client: Client, key: Any) -> None:
    before = len(client.history())
    with pytest.raises(InvalidValue, match="idempotency_key is a text of 1 to 200"):
        client.mean("age", spend=RenyiDP(8, 1), idempotency_key=key)
    assert len(client.history()) == before


def test_a_server_that_dies_while_it_answers_has_charged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, end = write_office(tmp_path), threading.Event()

    def never(self: Curator, paid: Any) -> Any:
        proxy.target = others[0]  # who asks again asks another, and may wait for it
        client._wire._timeout = 60
        end.wait()
        raise OSError

    others: list[int] = []
    with served(config) as first:
        proxy = Proxy(first.base_url.port or 0)
        client = Client(proxy.url, token_for(config), "patients", tries=12)
        client._wire._sleep, client._wire._timeout = lambda _: None, 0.5
        monkeypatch.setattr(Curator, "make_all", never)
        try:
            with served(config) as second, Ledger(config.ledger) as ledger:
                others.append(second.base_url.port or 0)
                with pytest.raises(EntryPending, match=r"counts as spent.*tell your administrator") as told:
                    client.mean("age", spend=0.1)
                (entry,) = ledger.entries()
                assert "recover" not in str(told.value) and f"entry {entry.id}," in str(told.value)
                assert str(entry.state) == "pending" and client.left().startswith("90 % left")
                with pytest.raises(NotFound, match=f"entry {entry.id} of patients has no answer, and counts as spent"):
                    client.again(entry.id)
                end.set()
        finally:
            end.set()
            proxy.close()


def test_refusals_are_errors_of_ours(client: Client, server: httpx.Client, office: Config) -> None:
    url = str(server.base_url)
    staff = Client(url, token_for(office), "staff")
    for wrong, kind, said in [
        (lambda: Client(url, "sv1_0123456789abcdef_" + "a" * 43), NotAuthenticated, "unknown"),
        (lambda: Client(url, token_for(office)), InvalidValue, "one of patients, staff"),
        (lambda: Client(url, token_for(office), "nowhere"), NotFound, "nowhere"),
        (lambda: client.mean("nope"), InvalidValue, "the facts name no column"),
        (lambda: client.mean("ward"), InvalidValue, "needs a column of numbers"),
        (lambda: client.mean("age", spend=7), InvalidValue, "at most 1"),
        (lambda: client.mean("age", spend=float("nan")), InvalidValue, "at most 1"),
        (lambda: client.mean("age", level=1.0), InvalidValue, "level"),
        (lambda: client.mean("age", part=object()), InvalidValue, "part="),  # type: ignore[arg-type]
        (lambda: client.mean("age", rng=object()), InvalidValue, "rng="),
        (lambda: client.mean("age", where="secret = 'x'"), InvalidValue, "no column 'secret'"),
        (lambda: client.asked("magic"), InvalidValue, "no verb is called"),
        (lambda: client.again(10**9), NotFound, "no answer"),
        (lambda: client.receipt(0), NotFound, "numbered from 1"),
        (lambda: staff.proportion("smoker", spend=PureDP(0.6)), BudgetExceeded, "nothing was spent"),
        (lambda: staff.proportion("smoker", where="smoker"), InvalidValue, "answers no conditions"),
        (lambda: Client(url, token_for(office, "bob", "read"), "patients").mean("age"), NotAllowed, "scope 'ask'"),
    ]:
        with pytest.raises(kind, match=said):
            wrong()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://register.example", "use https"),
        ("ftp://127.0.0.1", "is like https://"),
        ("https://ada:secret@127.0.0.1", "holds no password"),
        ("register", "is like https://"),
        (None, "is like https://"),
    ],
)
def test_an_address_that_would_give_the_token_away_is_refused(url: Any, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        Client(url, "sv1_x")


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", None])
def test_a_token_is_one_line_of_text(token: Any) -> None:
    with pytest.raises(InvalidValue, match="tokens create"):
        Client("https://127.0.0.1", token)


MANNERS = {
    "redirect": "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "a web page": "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
    "other JSON": 'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}',
    "deep JSON": "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + "[" * 100_000,
    "a teapot": "HTTP/1.1 418 No\r\nContent-Length: 2\r\n\r\n[]",
    "noise": "\x00\x01\x02",
}


@pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS)
def test_what_is_no_server_of_ours_is_an_error_of_ours(proxy: Proxy, office: Config, manner: str) -> None:
    proxy.manners = [manner] * 9
    with pytest.raises(ServerUnreachable):
        Client(proxy.url, token_for(office), "patients", tries=1)


def test_a_busy_server_is_tried_again_when_it_says(proxy: Proxy, office: Config) -> None:
    busy = '{"type": "urn:sottovoce:too-many-requests", "detail": "wait"}'
    manner = f"HTTP/1.1 429 Busy\r\nRetry-After: 7\r\nContent-Length: {len(busy)}\r\n\r\n{busy}"
    slept: list[float] = []
    patient = Client(proxy.url, token_for(office), "patients", tries=3)
    patient._wire._sleep = slept.append
    proxy.manners = [manner, "refuse"]
    assert "left" in patient.left()
    assert slept[0] == 7.0 and len(slept) == 2
    proxy.manners = [manner] * 3
    with pytest.raises(TooManyRequests) as caught:
        patient.left()
    assert caught.value.retry_after == 7.0


def test_nobody_is_home() -> None:
    with pytest.raises(ServerUnreachable, match="does not answer"):
        Client(f"http://127.0.0.1:{free_port()}", "sv1_x", tries=1)


def test_whoever_gives_up_is_told_the_key_under_which_to_pay_once(proxy: Proxy, office: Config) -> None:
    hasty = Client(proxy.url, token_for(office), "patients", tries=1)
    before = hasty.remaining()
    proxy.manners = ["drop"]
    with pytest.raises(ServerUnreachable, match="may have been charged") as caught:
        hasty.proportion("smoker", spend=0.01)
    charged = hasty.remaining()
    key = str(caught.value).split("idempotency_key='")[1].split("'")[0]
    answer = hasty.proportion("smoker", spend=0.01, idempotency_key=key)
    assert answer.rows and before != charged == hasty.remaining()


def test_the_token_is_shown_nowhere(client: Client, office: Config) -> None:
    token = token_for(office)
    shown = Client(client._wire.url, token, "patients")
    assert token not in repr(shown) + repr(shown._wire) + shown._repr_html_()
    assert repr(shown) == f"Client('patients' at {client._wire.url}, n=400)"
    assert isinstance(shown.facts, Facts) and "smoker" in shown._repr_html_()


def test_errors_go_over_the_wire_and_come_back() -> None:
    for error in (BudgetExceeded("a"), NotFound("b"), KeyTaken("c"), EntryPending("d"), InvalidValue("e")):
        back = error_of(kind_of(error), str(error))
        assert type(back) is type(error) and str(back) == str(error)
    assert type(error_of("what-ever", "x")) is SottovoceError


def test_the_client_needs_no_server_and_no_frame() -> None:
    heavy = "('fastapi', 'httpx', 'pandas', 'jax', 'ibis', 'sqlalchemy')"
    code = f"import sys, sottovoce.faces.client; print([m for m in {heavy} if m in sys.modules])"
    environment = os.environ | {"PYTHONPATH": str(Path(sottovoce.__file__).parents[1])}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert said.stdout.strip() == "[]"
