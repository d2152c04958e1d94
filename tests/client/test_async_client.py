"""The client as a context manager, and the client to be awaited: the same methods, closed when the block ends."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sottovoce.faces.client import AsyncClient, Client, NotAuthenticated
from sottovoce.faces.server.config import Config
from sottovoce.privacy.errors import InvalidValue
from support.offices import served, token_for, write_office


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return write_office(tmp_path_factory.mktemp("office"))


@pytest.fixture(scope="module")
def server(config: Config) -> Iterator[httpx.Client]:
    with served(config) as client:
        yield client


def test_a_client_forgets_its_token_when_its_block_ends(server: httpx.Client, config: Config) -> None:
    secret = token_for(config)
    with Client(str(server.base_url), secret, "patients") as client:
        answer = client.mean("wait", spend=0.01)
    with pytest.raises(InvalidValue, match="this client was closed; open another"):
        client.left()
    assert secret not in repr(vars(client._wire))
    assert answer.rows


def test_several_questions_are_awaited_at_once_and_answered_as_by_a_client(
    server: httpx.Client, config: Config
) -> None:
    async def asked() -> Any:
        async with AsyncClient(str(server.base_url), token_for(config), "patients", at_once=3) as client:
            assert client.n == 400 and client.dataset == "patients" and "smoker" in client.facts
            answers = await asyncio.gather(
                client.proportion("smoker", spend=0.01),
                client.mean("age", by="ward", spend=0.01),
                client.ask("mean of visits", spend=0.01),
                client.mean("nothing", spend=0.01),
                return_exceptions=True,
            )
            again = await client.again(answers[0].entry)
            return client, answers, again, await client.left()

    client, answers, again, left = asyncio.run(asked())
    assert [len(answer.rows) for answer in answers[:3]] == [1, 3, 1]
    assert isinstance(answers[3], InvalidValue)
    assert again.rows == answers[0].rows and left.startswith("96 % left")
    with pytest.raises(InvalidValue, match="closed"):
        client._client.left()


def test_every_method_of_a_client_can_be_awaited_and_none_is_written_twice() -> None:
    public = {name for name, _ in inspect.getmembers(Client, callable) if not name.startswith("_")}
    assert {"ask", "mean", "regress", "history", "receipt", "left"} <= public
    assert not public & set(vars(AsyncClient))


def test_what_cannot_be_opened_says_so(server: httpx.Client) -> None:
    async def opened() -> None:
        async with AsyncClient(str(server.base_url), "sv1_wrong"):
            raise AssertionError

    with pytest.raises(NotAuthenticated):
        asyncio.run(opened())
    with pytest.raises(InvalidValue, match="async with"):
        AsyncClient("https://register.example", "token").left()
