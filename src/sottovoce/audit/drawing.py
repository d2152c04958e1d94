"""Drawing from both data sets: block by block, seeded, in one process or in several."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Self

import numpy as np

from sottovoce.audit.subject import Subject
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import secure_rng

_FRESH = 128
"""So many draws, of which a quarter differ from the one before, are not the same again by chance."""
_APART = 1 << 31
"""The number of a block that no audit reaches."""


class DrawSource:
    """Outputs of a subject, as many as are asked for.

    Block k of data set s always comes from the same stream of the seed, so that the number of processes changes
    nothing. Without a seed every block has secure randomness of its own: the very path of a release.
    """

    def __init__(self, subject: Subject, seed: int | None, jobs: int = 1) -> None:
        self._subject = subject
        self._seed = seed
        self._next = 0
        self._pool: ProcessPoolExecutor | None = None
        if jobs > 1:
            try:
                pickle.dumps(subject.draw)
            except Exception as error:
                raise InvalidValue(
                    f"with several jobs the mechanism travels to other processes, and this one cannot ({error}); "
                    "define the function in a module, or use jobs=1"
                ) from None
            self._pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("forkserver"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def check_fresh(self) -> None:
        """Raise where a function makes the same draws again, with a seed of its own: together they look like noise."""
        if not self._subject.strange:
            return
        first, again = (_block((self._subject.draw, 0, _FRESH, self._seed, _APART + k)) for k in (0, 1))
        changes = np.count_nonzero(np.any((first[1:] != first[:-1]).reshape(_FRESH - 1, -1), axis=1))
        if changes >= _FRESH // 4 and np.array_equal(first, again):
            raise InvalidData(
                "the function makes the same draws whenever it is called; take its noise from the generator it is given"
            )

    def blocks(self, count: int) -> Iterator[tuple[Floats, Floats]]:
        """Yield outputs of both data sets, `count` of each in all."""
        sizes = [min(self._subject.block, count - k) for k in range(0, count, self._subject.block)]
        tasks = [
            (self._subject.draw, side, size, self._seed, self._next + k)
            for k, size in enumerate(sizes)
            for side in (0, 1)
        ]
        self._next += len(sizes)
        results: Iterator[Any] = map(_block, tasks) if self._pool is None else self._pool.map(_block, tasks)
        for first in results:
            yield first, next(results)

    def take(self, count: int) -> tuple[Floats, Floats]:
        """Return `count` outputs of each data set."""
        blocks = list(self.blocks(count))
        first, second = (np.concatenate([b[side] for b in blocks]) for side in (0, 1))
        if first.shape[1:] != second.shape[1:]:
            raise InvalidData(
                f"outputs must have one shape whatever the data. Got {first.shape[1:]} and {second.shape[1:]}"
            )
        return first, second


def _block(task: tuple[Any, int, int, int | None, int]) -> Floats:
    draw, side, count, seed, index = task
    if seed is None:
        rng: np.random.Generator = secure_rng()
    else:
        # Of NumPy's generators the quickest by far where laws are drawn by rejection: three times as quick as Philox.
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(side, index))))
    try:
        outputs = np.asarray(draw(side, count, rng), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidData | InvalidValue):
            raise
        raise InvalidData(f"the mechanism's values must be numbers: {error}") from None
    if outputs.ndim == 0 or outputs.shape[0] != count:
        raise InvalidData(f"the mechanism was asked for {count} draws. Got an array of shape {outputs.shape}")
    return outputs
