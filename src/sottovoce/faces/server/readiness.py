"""Readiness: whether each data set's records are within reach, and whether its answers come out."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from sottovoce.faces.server.datasets import Dataset
from sottovoce.faces.server.logs import log_failure

EVERY = 10.0
"""Seconds between two looks at every source: a container's health check comes every thirty by default."""
_LOST_IN_A_ROW = 3
"""So many answers of a data set lost one after the other are no accident of one question."""
_RECENT = 300.0
"""Seconds for which lost answers count: whoever is kept from asking could never show that it is over."""


@dataclass
class _State:
    reachable: bool = True
    lost: int = 0
    lost_at: float = 0.0


class Readiness:
    """What was last seen of each source, and how many of its answers were lost in a row.

    Sources are looked at on a clock, never when someone asks how they are: a look waits for whoever reads the records
    just then, and how long that takes is nobody's business.

    Parameters
    ----------
    datasets
        The data sets by name.
    """

    def __init__(self, datasets: Mapping[str, Dataset]) -> None:
        self._datasets = datasets
        self._states = {name: _State() for name in datasets}
        self._turn, self._looking = threading.Lock(), threading.Lock()
        self._closed = False

    def note_reach(self, dataset: str, error: Exception | None) -> None:
        """Note that the records answered, or why they did not; a change is logged."""
        with self._turn:
            state = self._states[dataset]
            changed, state.reachable = state.reachable != (error is None), error is None
        if changed and error is not None:
            log_failure(error, dataset=dataset)

    def note_lost(self, dataset: str) -> None:
        """Note that an answer was charged and lost."""
        with self._turn:
            state = self._states[dataset]
            state.lost, state.lost_at = state.lost + 1, time.monotonic()

    def note_made(self, dataset: str) -> None:
        """Note that an answer came out."""
        with self._turn:
            self._states[dataset].lost = 0

    def reachable(self, dataset: str) -> bool:
        """Return whether the records of a data set answered when they were last looked at."""
        with self._turn:
            return self._states[dataset].reachable

    def problem(self) -> str | None:
        """Return what is wrong, without names: whoever asks for it shows no token."""
        now = time.monotonic()
        with self._turn:
            states = list(self._states.values())
        if not all(state.reachable for state in states):
            return "the records of a data set are out of reach"
        if any(state.lost >= _LOST_IN_A_ROW and now - state.lost_at < _RECENT for state in states):
            return "the answers of a data set are lost"
        return None

    def look(self) -> None:
        """Look at every source, and connect anew where a connection was lost. Reads no record."""
        for name, dataset in self._datasets.items():
            with self._looking:
                if self._closed:
                    return
                try:
                    dataset.ensure_reachable()
                except Exception as error:  # a watch that ended would go on saying what it saw last
                    self.note_reach(name, error)
                else:
                    self.note_reach(name, None)

    def close(self) -> None:
        """Look no more, once a look that is under way has ended: it might open what is about to be closed."""
        with self._looking:
            self._closed = True

    async def watch(self) -> None:
        """Look at every source on a clock, until cancelled."""
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(EVERY)
