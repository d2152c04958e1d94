"""Randomness: secure where a release is made, and never the same stream twice."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from unittest import mock

import numpy as np

from sottovoce.audit.cases_conjugate import small_cases
from sottovoce.audit.checks.result import check, verdict
from sottovoce.mechanisms import Mechanism, NoisyStatistics
from sottovoce.mechanisms.conjugate import BetaBernoulli, NormalMean
from sottovoce.privacy.randomness import is_secure, secure_rng, seeded_rng

_RECORDS = 12


@check("releases use secure randomness")
def secure_releases() -> tuple[bool, str]:
    """A release without a generator must take a fresh key of the operating system, and never repeat itself.

    A seeded generator must mark the release as reproducible.
    """
    vector = NormalMean(1.0, 1.0, radius=1.0, dimension=4)
    shown: list[tuple[str, Mechanism, object]] = [(c.name, c.mechanism, c.large) for c in small_cases(_RECORDS)]
    shown += [("noisy vector", NoisyStatistics(vector, 1, "gaussian", 5.0), np.zeros((1, 4)))]
    shown += [("noisy proportion", NoisyStatistics(BetaBernoulli(1, 1), 4, "laplace", 1e9), np.ones(4))]
    problems = []
    for name, mechanism, records in shown:
        keys: list[int] = []
        with mock.patch("os.urandom", lambda size, keys=keys, take=os.urandom: keys.append(size) or take(size)):
            releases = [mechanism.release(records) for _ in range(3)]
        if sum(keys) < 3 * 32:
            problems.append(f"{name}: three releases took {sum(keys)} bytes of entropy for their keys")
        if any(release.reproducible for release in releases):
            problems.append(f"{name}: a release says that anyone could reproduce it")
        values = {np.asarray(getattr(r.value, "noisy", r.value)).tobytes() for r in releases}
        if len(values) < 3:
            problems.append(f"{name}: two releases of three are the same")
        if not mechanism.release(records, seeded_rng(1)).reproducible:
            problems.append(f"{name}: a seeded release does not say so")
        if problems:
            break
    if is_secure(seeded_rng(1)) or not is_secure(secure_rng()):
        problems.append("a seeded generator passes for a secure one")
    return verdict(problems, f"{len(shown)} mechanisms took a fresh 256-bit key for each release")


@check("forked processes share no stream")
def forks() -> tuple[bool, str]:
    """Children that inherit a generator must not draw what their parent draws, nor what their siblings draw."""
    if not hasattr(os, "fork"):
        return True, "this system cannot fork"
    rng = secure_rng()
    rng.random(3)  # a buffer half used is the dangerous moment
    drawn = [_in_child(lambda: rng.bytes(32)) for _ in range(4)] + [rng.bytes(32)]
    problems = [] if len(set(drawn)) == len(drawn) else [f"{len(drawn)} processes drew {len(set(drawn))} streams"]
    return verdict(problems, f"{len(drawn)} processes, {len(set(drawn))} streams")


def _in_child(draw: Callable[[], bytes]) -> bytes:
    """Return what `draw` returns in a forked child."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        # Threads of other libraries may be running; the child uses nothing of theirs.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        try:
            os.write(write, draw())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read()
