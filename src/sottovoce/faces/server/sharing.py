"""Synthetic tables over the wire: relations are learnt once under a key, and tables of what was released are free."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sottovoce.faces.client.errors import NotAllowed, TooManyRequests
from sottovoce.faces.server.config import DatasetConfig
from sottovoce.faces.server.orders import Asking, Order
from sottovoce.faces.server.questions import target_of
from sottovoce.faces.server.release_workers import quietly
from sottovoce.faces.server.tokens import Caller
from sottovoce.inference.synthesis.marginal_choice import MarginalChoice
from sottovoce.mechanisms import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise
from sottovoce.service.answers.catalogue import spend_of
from sottovoce.service.answers.synthesis import Synthesis
from sottovoce.service.answers.table_picture import TablePicture, check_sets
from sottovoce.service.curator import Curator
from sottovoce.service.curator.released_picture import BINS
from sottovoce.service.ledger import Budget, Entry
from sottovoce.service.ledger.charging import EntryPending

if TYPE_CHECKING:
    from sottovoce.faces.server.service import Service

__all__ = ["PATIENCE", "RelationsQuestion", "Sharing", "TablesAsked"]

PATIENCE = 10.0
"""Seconds for which a reply is held back; longer work is told to be under way, and asked for again."""
_MOST_CELLS = 50_000_000
"""The most values of all tables together."""
_MOST_JOBS = 8
"""How many callers' tables may wait to be drawn."""
_KEPT = 4
"""Of how many requests the files are kept."""


@dataclass(frozen=True)
class RelationsQuestion(Asking):
    """What relations are learnt of, in plain values; a question of the service as every other.

    Attributes
    ----------
    columns
        Which columns; all that can be cut unless named.
    spend
        A share of the caller's own budget, or a promise.
    bins
        Into how many parts numbers are cut.
    purpose
        What it is for; recorded.
    key
        The idempotency key.
    """

    columns: tuple[str, ...] | None
    spend: Any
    bins: int = BINS
    purpose: str | None = None
    key: str | None = None
    seen: object = field(default_factory=object, repr=False)
    """What was released before is part of it, so it is built anew whenever it is asked."""

    def order(self, config: DatasetConfig, curator: Curator, part: Budget, most_draws: int) -> Order:
        """Return the order, or raise what is wrong with the question. Reads no record."""
        del most_draws
        if config.mechanisms is not None and MarginalChoice.word not in config.mechanisms:
            raise InvalidValue(
                f"the mechanism {MarginalChoice.word!r} is not allowed here; tables of what was released are"
            )
        spend = spend_of(self.spend)
        if isinstance(spend, Promise):
            target_of(str(spend))
        mechanism = curator.learning(self.columns, spend, bins=self.bins, part=part, key=self.key)
        return Order(mechanism, purpose=self.purpose, about={"asked": f"relations of {', '.join(mechanism.columns)}"})

    def told(self, release: Release, entry: Entry, part: Budget) -> dict[str, Any]:
        """Return which margins were released, and the share that it cost."""
        return {
            "state": "learnt",
            "share": part.share(entry.cost),
            "relations": [list(c) for c in release.value.cliques],
        }


@dataclass(frozen=True)
class TablesAsked:
    """Which tables are to be drawn of what was released."""

    columns: tuple[str, ...] | None = None
    sets: int = 20
    size: int | None = None
    format: Literal["parquet", "csv"] = "parquet"
    entry: int | None = None
    """The last entry that they rest on: the same tables whatever is released later."""


class Sharing:
    """What a service says of all that was released to a caller, and the tables it draws of that.

    Drawing takes a processor for a while and reads no record: it has a thread of its own, and files are kept for those
    who ask again.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._drawing = ThreadPoolExecutor(1, thread_name_prefix="draw")
        self._learning: dict[tuple[int, str], asyncio.Task[dict[str, Any]]] = {}
        self._files: dict[tuple[Any, ...], asyncio.Future[Any]] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="sottovoce-tables-")

    def close(self) -> None:
        """Let go of thread and files."""
        self._drawing.shutdown(cancel_futures=True)
        self._folder.cleanup()

    # Learn.

    async def learn(self, caller: Caller, name: str, question: RelationsQuestion, key: str) -> dict[str, Any] | None:
        """Learn relations, charged once under a key; None while they are being learnt, so ask again under it."""
        part = self._part(caller, "ask", name)
        task = self._learning.get((part.id, key))
        if task is None:
            task = asyncio.create_task(self._service.ask(caller, name, question, key))
            self._learning[part.id, key] = task
        done, _ = await asyncio.wait({task}, timeout=PATIENCE)
        if not done:
            return None
        self._learning.pop((part.id, key), None)
        try:
            return task.result()
        except EntryPending as error:
            if error.entry is not None and error.entry.state.value == "pending":
                return None  # another process of this server is making it
            raise

    # Know and draw.

    async def released(self, caller: Caller, name: str, entry: int | None = None) -> dict[str, Any]:
        """Return all that was released to the caller, of which a client makes the same picture."""
        picture = await self.picture(caller, name, entry)
        return picture.to_dict()

    async def known(self, caller: Caller, name: str, question: str, level: float) -> dict[str, Any]:
        """Return what is known of a question from what was released to the caller."""
        part, curator = self._part(caller, "read", name), self._service.curator_of(caller, name)
        answer = await self._drawn(functools.partial(curator.know, question, level=level, part=part))
        return answer.to_dict()  # type: ignore[no-any-return]

    async def report(self, caller: Caller, name: str, asked: TablesAsked) -> dict[str, Any] | None:
        """Return what tables keep, how well, and what they are not for; None while it is worked out."""
        path = await self._file(caller, name, asked, "json", lambda it: json.dumps(it.to_dict()).encode())
        return None if path is None else json.loads(path.read_bytes())

    async def page(self, caller: Caller, name: str, asked: TablesAsked) -> Path | None:
        """Return the report as a page; None while it is worked out."""
        return await self._file(caller, name, asked, "html", lambda it: it.to_html().encode())

    async def tables(self, caller: Caller, name: str, asked: TablesAsked) -> Path | None:
        """Return the tables in a zip file; None while they are drawn."""
        return await self._file(caller, name, asked, "zip", lambda it: zipped(it, asked.format))

    async def _file(
        self, caller: Caller, name: str, asked: TablesAsked, kind: str, make: Callable[[Synthesis], bytes]
    ) -> Path | None:
        picture = await self.picture(caller, name, asked.entry)
        synthesis = picture.synthesis(asked.columns, check_sets(asked.sets), asked.size)
        if synthesis.sets * synthesis.size * len(synthesis.columns) > _MOST_CELLS:
            raise InvalidValue(f"a server draws {_MOST_CELLS:,} values at most; ask for fewer sets, rows or columns")
        receipt = synthesis.receipt()
        known = (kind, asked.format, json.dumps([receipt, synthesis.columns], sort_keys=True))
        future = self._files.get(known)
        if future is None:
            if sum(not item.done() for item in self._files.values()) >= _MOST_JOBS:
                raise TooManyRequests("too many tables wait to be drawn; ask again in a moment", PATIENCE)
            path = Path(self._folder.name) / f"{len(self._files)}-{abs(hash(known)):x}.{kind}"
            future = asyncio.ensure_future(self._drawn(_written, make, synthesis, path))
            self._forget_old()
            self._files[known] = future
        await asyncio.wait({future}, timeout=PATIENCE)
        if not future.done():
            return None
        if future.exception() is not None:
            self._files.pop(known, None)
        return future.result()  # type: ignore[no-any-return]

    def _forget_old(self) -> None:
        done = [known for known, future in self._files.items() if future.done()]
        for known in done[: max(len(done) - _KEPT + 1, 0)]:
            future = self._files.pop(known)
            if future.exception() is None:
                future.result().unlink(missing_ok=True)

    async def picture(self, caller: Caller, name: str, entry: int | None) -> TablePicture:
        """Return the picture of what was released to the caller."""
        part = self._part(caller, "read", name)
        curator = self._service.curator_of(caller, name)
        return await self._drawn(curator.picture, part, entry)  # type: ignore[no-any-return]

    def _part(self, caller: Caller, scope: str, name: str) -> Budget:
        part = self._service.part_of(caller, scope, name)
        if part is None:
            raise NotAllowed(
                f"you have no budget on {name}, so nothing was released to you; ask the administrator for one"
            )
        return part

    async def _drawn(self, work: Callable[..., Any], *arguments: object) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._drawing, quietly, work, *arguments)


def _written(make: Callable[[Synthesis], bytes], synthesis: Synthesis, path: Path) -> Path:
    path.write_bytes(make(synthesis))
    return path


def zipped(synthesis: Synthesis, ending: Literal["parquet", "csv"]) -> bytes:
    """Return the tables, each with its receipt, and the report, as a zip file."""
    with tempfile.TemporaryDirectory() as folder:
        if ending == "parquet":
            synthesis.to_parquet(folder)
        else:
            synthesis.to_csv(folder)
        (Path(folder) / "report.html").write_text(synthesis.to_html(), encoding="utf-8")
        body = io.BytesIO()
        with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as file:
            for path in sorted(Path(folder).iterdir()):
                file.write(path, path.name)
        return body.getvalue()
