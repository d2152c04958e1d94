"""How long the three looks of a regression take on devices: ten million records of a hundred entries on a GPU.

python -m benchmarks.regression_devices --n 10000000 --d 100
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import show
from sottovoce.inference.regression import AdaptiveLooks, DeviceRecords, Formula
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Facts, Flag, Number

_FIELDS = ("device", "n", "d", "look", "seconds")


def held(n: int, d: int, chunk: int) -> DeviceRecords:
    """Return imagined records, made where they are held."""
    places, shards = jax.devices(), []
    with jax.enable_x64(True):
        for number, device in enumerate(places):
            share = n // len(places) + (number < n % len(places))
            chunks = -(-share // chunk)
            with jax.default_device(device):
                rows, y = _made(jax.random.key(number), chunks, d, chunk)
                left = jnp.arange(chunks * chunk).reshape(chunks, 1, chunk) < share
                rows = rows * left
            shards.append((rows.block_until_ready(), y))
    return DeviceRecords(n, tuple(shards))


def _made(key: Any, chunks: int, d: int, chunk: int) -> tuple[Any, Any]:
    def one(number: Any) -> tuple[Any, Any]:
        first, second = jax.random.split(jax.random.fold_in(key, number))
        x = jax.random.randint(first, (d, chunk), -(1 << 22), 1 << 22, dtype=jnp.int32)
        x = x.at[0].set(1 << 23)
        t = (x[1:6] / 2.0**23).sum(axis=0)
        return x, (jax.random.uniform(second, (chunk,)) < 1 / (1 + jnp.exp(-t))).astype(jnp.float64)

    made: tuple[Any, Any] = jax.jit(lambda: jax.lax.map(one, jnp.arange(chunks)))()
    return made


def measure(n: int, d: int, chunk: int = 1 << 17) -> list[list[str]]:
    """Time every look of a regression, and the whole with its posterior; compiled before."""
    names = [f"x{i}" for i in range(1, d)]
    formula = Formula("y ~ " + " + ".join(names), Facts({"y": Flag()} | {name: Number(-1, 1) for name in names}))
    mechanism, records = AdaptiveLooks(formula, n, 0.1), held(n, d, chunk)
    device = f"{len(jax.devices())} × {jax.devices()[0].device_kind}"
    shape, rows = [device, f"{n:,}", str(d)], []
    for warm in (True, False):
        taken: list[float] = []

        def shown(look: Any, scales: Any, taken: list[float] = taken) -> Any:
            del scales
            started = time.perf_counter()
            total = records.look(look).total
            taken.append(time.perf_counter() - started)
            return total

        started = time.perf_counter()
        mechanism.conclude(mechanism.walk(shown))
        whole = time.perf_counter() - started
        rows = [[*shape, f"look {i}", f"{one:.3f}"] for i, one in enumerate(taken, 1)]
        rows += [[*shape, "three looks", f"{sum(taken):.3f}"], [*shape, "with posterior", f"{whole:.3f}"]]
        if warm:
            rows = []
    started = time.perf_counter()
    mechanism.release(records, seeded_rng(1))
    rows.append([*shape, "release", f"{time.perf_counter() - started:.3f}"])
    alone = np.asarray(records.shards[0][0])
    started = time.perf_counter()
    jax.device_put(alone, jax.devices()[0]).block_until_ready()
    rows.append([*shape, "rows to the first device", f"{time.perf_counter() - started:.3f}"])
    return rows


def main(quick: bool = False) -> None:
    """Time looks on devices."""
    show("Looks on devices", _FIELDS, measure(*((20_000, 10) if quick else (1_000_000, 20))))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000_000)
    parser.add_argument("--d", type=int, default=100)
    parser.add_argument("--chunk", type=int, default=1 << 17)
    given = parser.parse_args(words)
    show("Looks on devices", _FIELDS, measure(given.n, given.d, given.chunk))


if __name__ == "__main__":
    command()
