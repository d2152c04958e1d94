"""Faults of randomness: seeds in releases, streams shared by processes."""

from __future__ import annotations

import numpy as np

from audit.faults import Patch, fault
from sottovoce.privacy import randomness
from sottovoce.privacy.randomness import seeded_rng

SECURE = "releases use secure randomness"


@fault("seeded generator in a release", "every mechanism", SECURE)
def _seeded(patch: Patch) -> None:
    patch.setattr("sottovoce.mechanisms.mechanism.secure_rng", lambda: seeded_rng(0))
    patch.setattr("sottovoce.mechanisms.mechanism.is_secure", lambda rng: True)
    patch.setattr("sottovoce.mechanisms.integer_noise.is_secure", lambda rng: False)


@fault("NumPy's default generator in a release", "every mechanism", SECURE)
def _default(patch: Patch) -> None:
    patch.setattr("sottovoce.mechanisms.mechanism.secure_rng", np.random.default_rng)
    patch.setattr("sottovoce.mechanisms.mechanism.is_secure", lambda rng: True)


@fault("seeded release not marked", "every mechanism", SECURE)
def _unmarked(patch: Patch) -> None:
    patch.setattr("sottovoce.mechanisms.mechanism.is_secure", lambda rng: True)


@fault("stream shared after a fork", "secure generator", "forked processes share no stream")
def _shared(patch: Patch) -> None:
    patch.setattr(randomness, "_LIVE", set())
    bare = np.random.Generator.__init__
    patch.setattr(randomness.SecureGenerator, "__init__", lambda self: bare(self, randomness._fresh_bits()))
