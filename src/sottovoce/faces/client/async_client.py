"""The client for programs that wait for many things at once: a `Client` on threads of its own."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from sottovoce.faces.client.client import Client
from sottovoce.privacy.errors import InvalidValue


class AsyncClient:
    """All that a `Client` can do, to be awaited: the same methods with the same arguments, none written twice.

    ``async with AsyncClient(url, token) as client: await client.mean("age", by="ward")``. Several may be under
    way at once. One whose wait is cancelled was perhaps charged: it is told again, free, under its `idempotency_key`.

    Parameters
    ----------
    *arguments, **options
        As of `Client`.
    at_once
        How many requests are under way at once; others wait for them.
    """

    def __init__(self, *arguments: Any, at_once: int = 8, **options: Any) -> None:
        self._open: Callable[[], Client] = functools.partial(Client, *arguments, **options)
        self._at_once = at_once
        self._client: Client | None = None

    async def __aenter__(self) -> Self:
        self._threads = ThreadPoolExecutor(self._at_once, thread_name_prefix="client")
        try:
            self._client = await asyncio.get_running_loop().run_in_executor(self._threads, self._open)
        except BaseException:
            self._threads.shutdown(wait=False)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._client is None:
            raise InvalidValue("an AsyncClient is opened by `async with AsyncClient(url, token) as client:`")
        value = getattr(self._client, name)
        if not callable(value):
            return value

        @functools.wraps(value)
        def awaited(*arguments: Any, **options: Any) -> Awaitable[Any]:
            work = functools.partial(value, *arguments, **options)
            return asyncio.get_running_loop().run_in_executor(self._threads, work)

        return awaited
