"""Randomness: secure for releases, seeded for experiments, and no way to mistake one for the other."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import whole


class SecureGenerator(np.random.Generator):
    """A NumPy generator on ChaCha20, keyed with 256 bits of the operating system's entropy.

    A forked child is keyed anew before it can draw; a copy or a pickle becomes a generator with a key of its
    own; the stream cannot be set back to a known state through the generator.
    """

    def __init__(self) -> None:
        super().__init__(_fresh_bits())
        _LIVE.add(self)

    def __reduce__(self) -> tuple[Callable[[], SecureGenerator], tuple[()]]:  # type: ignore[override]
        return secure_rng, ()

    def __copy__(self) -> SecureGenerator:
        return secure_rng()

    def __deepcopy__(self, memo: dict[int, object]) -> SecureGenerator:
        return secure_rng()

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """Return generators with keys of their own."""
        return [secure_rng() for _ in range(n_children)]

    def __setstate__(self, state: object) -> NoReturn:
        raise InvalidValue("a secure generator has no state to restore; use seeded_rng for experiments")


_LIVE: weakref.WeakSet[SecureGenerator] = weakref.WeakSet()


def _fresh_bits() -> Any:
    from randomgen import ChaCha  # noqa: PLC0415 - who only plans draws nothing

    return ChaCha(key=int.from_bytes(os.urandom(32), "little"), rounds=20)


def _rekey_all() -> None:
    for generator in list(_LIVE):
        generator.bit_generator.state = _fresh_bits().state


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rekey_all)


def secure_rng() -> SecureGenerator:
    """Return a generator fit for releases: ChaCha20, 256-bit key from the operating system, fork-safe.

    >>> rng = secure_rng()
    >>> 0.0 <= rng.random() < 1.0
    True
    """
    return SecureGenerator()


def seeded_rng(seed: int) -> np.random.Generator:
    """Return a reproducible generator for tests and experiments; a release made with it says so.

    >>> float(seeded_rng(7).random()) == float(seeded_rng(7).random())
    True
    """
    return np.random.Generator(np.random.Philox(whole("seed", seed, 0, None)))


def is_secure(rng: np.random.Generator) -> bool:
    """Say whether a release made with `rng` is fit to publish."""
    return isinstance(rng, SecureGenerator)
