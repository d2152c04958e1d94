"""The low-bits attack on every registered mechanism, and what rounding costs a chain on ten million records.

    python -m benchmarks low-bits [--quick]
    python benchmarks/low_bits.py OUT [--seconds 200] [--draws 10000000] [--workers 16]

An attacker sees of each number that leaves: where it lies, to half a deviation, and either the place of its last bit or
its last six bits. Half of the draws choose for each ε the sightings that speak for the one data set; the others bound
from below how much more often it is seen there, P[S] - e^ε·Q[S]. That must not exceed δ(ε) of the claim. As a control,
the same attack on textbook noise must succeed. Releases come from the secure source, as they are; where OpenDP is not
installed its noise is seeded, and said to be.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import special

from sottovoce.audit.low_bits import lowest_bit, naive_laplace
from sottovoce.audit.subject import Subject, subject_of
from sottovoce.inference.regression import Design, DiffusedRegression, Logistic
from sottovoce.inference.regression.rounding import step_error
from sottovoce.mechanisms.mechanism import MECHANISMS
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.randomness import secure_rng, seeded_rng

CONTROL = "textbook Laplace (control)"
EPSILONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
ALARM = 1e-4
"""How likely a false alarm is among all that is looked at for one mechanism."""
_COLUMNS = 6
"""Of a vector the first six numbers are looked at."""
_PILOT = 400

Aggregate = dict[tuple[int, str], tuple[Counter[int], Counter[int]]]
"""How often each sighting came, by column and kind of sighting, under both data sets."""


@cache
def subject(word: str) -> Subject:
    """Return what is attacked: a mechanism's example on its worst pair, or textbook noise on a count."""
    if word == CONTROL:
        return Subject(
            word, lambda side, count, rng: naive_laplace(float(side), 1.0, count, rng)[:, None], PureProfile(1.0)
        )
    return subject_of(MECHANISMS[word].example())


@cache
def source(word: str) -> tuple[Any, str]:
    """Return where randomness comes from: the secure source, unless its noise needs what is not installed."""
    try:
        subject(word).draw(0, 2, secure_rng())
    except ModuleNotFoundError:
        return seeded_rng(os.getpid()), "seeded"
    return secure_rng(), "secure"


@cache
def eye(word: str) -> tuple[Any, Any, Any]:
    """Return middle, deviation and finest place of each number, of a few draws that count for nothing."""
    drawn = _columns(subject(word).draw(0, _PILOT, seeded_rng(1)))
    return drawn.mean(axis=0), drawn.std(axis=0) + 1e-300, lowest_bit(drawn).min(axis=0)


def _columns(drawn: Any) -> Any:
    values = np.asarray(drawn, dtype=np.float64)
    return values.reshape(len(values), -1)[:, :_COLUMNS]


def sightings(word: str, drawn: Any) -> dict[tuple[int, str], Any]:
    """Return what is seen of every draw, as whole numbers."""
    values, (middle, deviation, finest) = _columns(drawn), eye(word)
    found = {}
    for k, column in enumerate(values.T):
        where = np.rint(2 * np.clip((column - middle[k]) / deviation[k], -6, 6)).astype(np.int64) * 1024
        found[k, "last place"] = where + np.clip(lowest_bit(column), -400, 400).astype(np.int64) + 400
        steps = np.mod(np.floor(np.ldexp(column, -int(finest[k]))), 64.0)
        found[k, "last bits"] = where + steps.astype(np.int64)
    return found


@dataclass
class Looked:
    """What came of drawing from a mechanism for a while: of every other lot of draws, for choosing and for proving."""

    word: str
    bits: str = "secure"
    draws: int = 0
    seconds: float = 0.0
    halves: tuple[Aggregate, Aggregate] = field(default_factory=lambda: ({}, {}))

    def add(self, other: Looked) -> None:
        """Take another's draws in."""
        self.bits, self.draws, self.seconds = other.bits, self.draws + other.draws, self.seconds + other.seconds
        for mine, theirs in zip(self.halves, other.halves, strict=True):
            for key, sides in theirs.items():
                for kept, counts in zip(mine.setdefault(key, (Counter(), Counter())), sides, strict=True):
                    kept.update(counts)


def look(task: tuple[str, int, float]) -> Looked:
    """Draw for a few seconds, or as often as asked of each data set, and count what is seen."""
    word, draws, until = task
    one, (rng, kind) = subject(word), source(word)
    found, began, size, lots = Looked(word, kind), time.process_time(), 32, 0
    while found.draws < draws and time.time() < until and time.process_time() < began + 5:
        before, count = time.process_time(), min(size, draws - found.draws)
        for side in (0, 1):
            for key, codes in sightings(word, one.draw(side, count, rng)).items():
                counts = found.halves[lots % 2].setdefault(key, (Counter(), Counter()))[side]
                for code, times in zip(*np.unique(codes, return_counts=True), strict=True):
                    counts[int(code)] += int(times)
        found.draws, lots = found.draws + count, lots + 1
        size = min(2 * size, 1 << 16) if time.process_time() < before + 0.5 else size
    found.seconds = time.process_time() - began
    return found


def attack(word: str, pilot: Aggregate, rest: Aggregate) -> tuple[float, str]:
    """Return the largest amount by which a proven δ exceeds the claim (negative where none does), and where."""
    claims, looks = subject(word).claim.delta(EPSILONS), 2 * len(rest) * len(EPSILONS)
    worst, where = -math.inf, ""
    for key, sides in rest.items():
        totals = [sum(counts.values()) for counts in sides]
        for first, second in ((0, 1), (1, 0)):
            for epsilon, claim in zip(EPSILONS, claims, strict=True):
                lift = math.exp(epsilon)
                chosen = pilot.get(key, (Counter(), Counter()))
                event = [c for c, times in chosen[first].items() if times > lift * chosen[second][c]]
                hits = [sum(sides[side][c] for c in event) for side in (first, second)]
                level = ALARM / (2 * looks)
                low = special.betaincinv(hits[0], totals[first] - hits[0] + 1, level) if hits[0] else 0.0
                missed = totals[second] - hits[1]
                high = special.betaincinv(hits[1] + 1, missed, 1 - level) if missed else 1.0
                excess = float(low - lift * high - claim)
                if excess > worst:
                    worst, where = excess, f"number {key[0]}, {key[1]}, ε = {epsilon:g}"
    return worst, where


def corrections() -> list[dict[str, Any]]:
    """Return what rounding adds to μ of a chain on ten million records; on a GPU, and how far off a sum really is."""
    import jax

    rows = []
    design = Design(Logistic(), dimension=20, data_norm=1.0)
    for n in (10**5, 10**6, 10**7):
        for precision in ("float64", "float32"):
            made = DiffusedRegression.calibrate(design, n, ApproxDP(1.0, 1e-5), n_steps=200, precision=precision)
            step, moved = made.chain.step, made.chain.sensitivity
            bound = step_error(design, n, made.data_weight, made.prior_precision, step, precision)
            off, seconds = _measured(made, precision)
            row: dict[str, Any] = {"n": n, "precision": precision, "device": jax.devices()[0].device_kind}
            row |= {"mu": made.profile.mu, "basis": made.profile.basis.name, "seconds a gradient": seconds}
            row |= {"bound adds to mu": 2 * bound / step / moved, "the sum as it is adds": 2 * off / step / moved}
            rows.append(row)
    return rows


def _measured(made: DiffusedRegression, precision: str) -> tuple[float, float]:
    """Return about how far a computed sum of gradients moves a step, by exact sums of two columns; and its time."""
    import jax
    import jax.numpy as jnp

    rng, n, d = np.random.default_rng(1), made.n, made.design.dimension
    X = rng.standard_normal((n, d)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True) * np.float32(1.001)
    w = np.full(d, 0.5)
    with jax.enable_x64(precision == "float64"):
        kind = jnp.float64 if precision == "float64" else jnp.float32

        @jax.jit
        def gradient(X: Any, w: Any) -> Any:
            return jnp.matmul(jax.nn.sigmoid(-jnp.matmul(X, w, precision="highest")), X, precision="highest")

        there = jnp.asarray(X, kind), jnp.asarray(w, kind)
        got = np.asarray(gradient(*there), dtype=np.float64)
        before = time.time()
        gradient(*there).block_until_ready()
        seconds = time.time() - before
    slopes = 1 / (1 + np.exp(X.astype(np.float64) @ w))
    exact = np.array([math.fsum((slopes * X[:, j].astype(np.float64)).tolist()) for j in range(2)])
    return float(np.linalg.norm(got[:2] - exact)) * math.sqrt(d / 2) * made.chain.step * made.data_weight, seconds


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--draws", type=int, default=10_000_000, help="of each mechanism, both data sets together")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--part", choices=["attack", "chain"], default=None)
    given = parser.parse_args(words)
    given.out.mkdir(parents=True, exist_ok=True)
    made: dict[str, Any] = {}
    if given.part != "chain":
        names = [CONTROL, *(given.only or MECHANISMS.kinds)]
        found = survey(names, given.draws // 2, time.time() + given.seconds, given.workers)
        made["attack"] = {name: one for name in names if (one := told(found[name]))}
    if given.part != "attack":
        made["ten million records"] = corrections()
    (given.out / f"{given.part or 'bits'}.json").write_text(json.dumps(made, indent=1), encoding="utf-8")


def survey(names: Sequence[str], wanted: int, until: float, workers: int) -> dict[str, Looked]:
    """Return what was seen of each: whoever has had the least time is next, so that quick ones reach their draws."""
    found = {name: Looked(name) for name in names}
    with get_context("spawn").Pool(workers) as pool:
        running: list[tuple[str, int, Any]] = []
        while True:
            while len(running) < workers:
                asked = Counter({name: one.draws for name, one in found.items()})
                busy: Counter[str] = Counter()
                for name, lot, _ in running:
                    asked[name] += lot
                    busy[name] += 5
                left = [n for n in names if asked[n] < wanted and time.time() < until]
                if not left:
                    break
                name = min(left, key=lambda n: (found[n].seconds + busy[n], names.index(n)))
                lot = min(max(1 << 14, wanted // 8), wanted - asked[name])
                running.append((name, lot, pool.apply_async(look, ((name, lot, until),))))
            if not running:
                return found
            time.sleep(0.02)
            for entry in [entry for entry in running if entry[2].ready()]:
                running.remove(entry)
                try:
                    found[entry[0]].add(entry[2].get())
                except Exception as error:
                    print(entry[0], repr(error), flush=True)
                    found[entry[0]].draws = wanted  # no more of it


def told(one: Looked) -> dict[str, Any] | None:
    """Return what came of the attack, or None where there was nothing to attack."""
    if not all(one.halves):
        return None
    excess, where = attack(one.word, *one.halves)
    made = {"draws": 2 * one.draws, "bits": one.bits, "proven δ less claimed": excess}
    return made | {"found": excess > 0, "where": where}


def main(quick: bool = False) -> None:
    """Attack every mechanism and show what was found."""
    from benchmarks.timing import show

    with tempfile.TemporaryDirectory() as folder:
        some = (
            ["--seconds", "60", "--draws", "40000", "--part", "attack"]
            if quick
            else ["--seconds", "3600", "--part", "attack"]
        )
        command([folder, "--workers", str(os.cpu_count() or 1), *some])
        found = json.loads((Path(folder) / "attack.json").read_text(encoding="utf-8"))["attack"]
    rows = [
        [name, f"{one['draws']:,}", one["bits"], f"{one['proven δ less claimed']:.4f}", "yes" if one["found"] else "no"]
        for name, one in found.items()
    ]
    show("The low-bits attack", ["mechanism", "draws", "bits", "proven δ less claimed", "found"], rows)


if __name__ == "__main__":
    command()
