"""What a client knows without paying again: shares of what was released to it, and synthetic tables."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from sottovoce.faces.client.errors import ServerUnreachable
from sottovoce.faces.client.wire import Wire
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.answers.budget_account import Spend
from sottovoce.service.answers.catalogue import spend_of
from sottovoce.service.answers.synthesis import KnownAnswer, Synthesis
from sottovoce.service.answers.table_picture import TablePicture, check_sets
from sottovoce.service.answers.verbs import Verbs

__all__ = ["SharedTables"]

_PAUSE = 2.0
"""Seconds between two looks at whether relations were learnt."""
_LONGEST = 3600.0
"""Seconds that a client waits for them: many times what fourteen columns of fifty thousand records take."""


class SharedTables(Verbs):
    """The part of a `Client` that answers and draws from all that was released to it; the server reads nothing."""

    dataset: str
    _wire: Wire

    def know(self, question: Question | str, *, level: float | str = 0.95) -> KnownAnswer:
        """Return what is known of a share or a count from what was released to this token, as `Curator.know` does."""
        return self._picture(None).know(self._question_of(question), level)

    def synthesize(
        self,
        columns: Sequence[str] | None = None,
        *,
        sets: int = 20,
        size: int | None = None,
        spend: Spend = 0,
        bins: int | None = None,
        idempotency_key: str | None = None,
        purpose: str | None = None,
    ) -> Synthesis:
        """Return synthetic tables, as `Curator.synthesize` does; they are drawn here, of what the server released.

        Where `spend` is given, the server learns relations first, charged once under the key, however long it takes
        and however often the network fails.
        """
        check_sets(sets)
        if spend == 0:
            if idempotency_key is not None or purpose is not None or bins is not None:
                raise InvalidValue("idempotency_key=, purpose= and bins= go with spend=...; released tables are free")
            return self._picture(None).synthesis(columns, sets, size)
        paid = spend_of(spend)
        body: dict[str, Any] = {"spend": paid if isinstance(paid, int | float) else str(paid)}
        body |= {"columns": None if columns is None else list(columns), "bins": bins, "purpose": purpose}
        said = self._learnt({name: value for name, value in body.items() if value is not None}, idempotency_key)
        entry = int(said["entry"])
        return self._picture(entry).synthesis(columns, sets, size, (entry, float(said["share"])))

    def _learnt(self, body: dict[str, Any], key: str | None) -> Any:
        key = secrets.token_hex(16) if key is None else key
        until = time.monotonic() + _LONGEST
        while True:
            try:
                said = self._wire.post("datasets", self.dataset, "synthesis", body=body, key=key)
            except ServerUnreachable as error:
                once = f"ask again with idempotency_key={key!r}, and you pay once"
                raise ServerUnreachable(f"{error}. Relations may have been charged: {once}") from None
            if said["state"] == "learnt":
                return said
            if time.monotonic() > until:
                raise ServerUnreachable(f"relations are still being learnt; ask again with idempotency_key={key!r}")
            time.sleep(_PAUSE)

    def _picture(self, entry: int | None) -> TablePicture:
        parameters = [] if entry is None else [("entry", str(entry))]
        return TablePicture.from_dict(self._wire.get("datasets", self.dataset, "released", parameters=parameters))
