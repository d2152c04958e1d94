"""A question is built once and kept: it is charged, drawn and refused each time as if it had been built anew."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from sottovoce.faces.client.errors import NotFound
from sottovoce.faces.server import paying
from sottovoce.faces.server.config import Config
from sottovoce.faces.server.questions import ServerQuestion
from sottovoce.faces.server.service import Service
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue
from support.offices import SMOKERS, token_for


@pytest.fixture
def service(own_office: Config) -> Iterator[Service]:
    """A service whose analysts can pay for four questions each, and six together."""
    with Service(own_office) as service:
        yield service


@pytest.fixture(scope="module")
def rich(office: Config) -> Iterator[Service]:
    """A service whose analysts can pay for all that is asked here."""
    with Service(office) as service:
        yield service


@pytest.fixture
def built(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every question that was built, in turn."""
    return built_by(service, monkeypatch)


def built_by(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    seen: list[Any] = []
    build = service._build

    def counted(dataset: Any, part: Any, question: Any) -> Any:
        seen.append(question)
        return build(dataset, part, question)

    monkeypatch.setattr(service, "_build", counted)
    return seen


def answer(service: Service, analyst: str = "ada", key: str | None = None, **changes: Any) -> dict[str, Any]:
    caller = service.authenticate(token_for(service.config, analyst))
    question = ServerQuestion(**(SMOKERS | {"mechanism": "diffused"} | changes))
    return asyncio.run(service.ask(caller, "patients", question, key))


def test_it_is_built_once_and_charged_and_drawn_each_time(service: Service, built: list[Any]) -> None:
    told = [answer(service) for _ in range(3)]
    assert len(built) == 1
    assert len({one["release"]["value"]["answer"] for one in told}) == 3
    assert len(service.ledger.entries()) == 3
    left = [one["remaining"]["yours"]["remaining"]["epsilon"] for one in told]
    assert left == pytest.approx([0.15, 0.10, 0.05], abs=1e-6)


def test_what_is_kept_is_refused_when_the_budget_is_spent(service: Service, built: list[Any]) -> None:
    for _ in range(4):
        answer(service)
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            answer(service)
    assert len(built) == 1
    assert len(service.ledger.entries()) == 4


def test_each_analyst_has_their_own(service: Service, built: list[Any]) -> None:
    """Charged to the part of whoever asks, though the question is the same to the letter."""
    for analyst in ("ada", "bob", "ada", "bob"):
        answer(service, analyst)
    assert len(built) == 2
    assert [entry.who for entry in service.ledger.entries()] == ["ada", "bob", "ada", "bob"]
    assert len({entry.budget for entry in service.ledger.entries()}) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"column": None, "where": "smoker"},
        {"where": "age > 40"},
        {"missing": True},
        {"missing": 1},
        {"query": "1 - theta"},
        {"mechanism": None},
        {"purpose": "the yearly report"},
        {"target": "renyi:8,0.050"},
        {"system": SMOKERS["system"] | {"alpha": 6.0}},
    ],
)
def test_what_differs_in_anything_is_built_anew(
    rich: Service, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(rich)
    built = built_by(rich, monkeypatch)
    answer(rich)
    assert not built
    other = answer(rich, **changes)
    assert len(built) == 1
    assert other["release"]["value"]["query"] == changes.get("query", "theta")
    recorded = [entry.request for entry in rich.ledger.entries()[-2:]]
    for name in changes.keys() & {"where", "purpose"}:
        assert [one.get(name) for one in recorded] == [None, changes[name]]


@pytest.mark.parametrize(("changes", "refused"), [({"column": "secret"}, NotFound), ({"draws": 0}, InvalidValue)])
def test_what_makes_no_sense_is_refused_each_time_and_not_kept(
    service: Service, built: list[Any], changes: dict[str, Any], refused: type[Exception]
) -> None:
    for count in (1, 2):
        with pytest.raises(refused):
            answer(service, **changes)
        assert len(built) == count
    assert not service._orders
    assert not service.ledger.entries()


def test_no_more_are_kept_than_there_is_room_for(
    service: Service, built: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paying, "_REMEMBERED", 1)
    answer(service)
    for _ in range(2):
        answer(service, query="1 - theta")
    answer(service, "bob")
    assert len(service._orders) == 1
    assert len(built) == 4
    answer(service, "bob", key="monday")
    assert answer(service, "bob", key="monday")["entry"] == service.ledger.entries()[-1].id
    assert len(service.ledger.entries()) == 5
