"""All looks of a regression in one likelihood beside the last look alone: width and coverage on the same releases.

python -m benchmarks.sharpness.joint --family logistic --sizes 3000,20000 --repeats 40
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.fitting import released
from benchmarks.sharpness import regressions
from benchmarks.sharpness.store import noise_rng
from benchmarks.timing import show
from sottovoce.privacy.numbers import Floats

__all__ = ["compare", "main"]


def compare(family: str, law: str, n: int, epsilon: float, d: int, repeats: int) -> list[str]:
    """Return one line: coverage, width beside the oracle's and worst of slopes, of the last look and of all."""
    cell = f"{family}, {law}, n = {n:,}, ε = {epsilon:g}, d = {d}"
    inside: list[Floats] = []
    ratios: list[Floats] = []
    seconds: list[float] = []
    for k in range(repeats):
        mechanism, rows, y, truth, best = regressions.table(cell, family, law, n, epsilon, d, k)
        path = mechanism.walk(released(mechanism, rows, y, noise_rng(cell, k)))
        (last,) = mechanism.conclude_last([path])
        started = time.process_time()
        joint = mechanism.conclude(path)
        seconds.append(time.process_time() - started)
        low, high = np.array([posterior.interval()[1:].T for posterior in (last, joint)]).transpose(1, 0, 2)
        inside.append((low <= truth) & (truth <= high))
        ratios.append((high - low) / best)
    covered, ratio = np.array(inside).mean(axis=(0, 2)), np.array(ratios)
    middle = np.exp(np.log(ratio).mean(axis=(0, 2)))
    worst = ratio.max(axis=(0, 2))
    figures = [(f"{a:.3f}", f"{b:.2f}", f"{c:.3g}") for a, b, c in zip(covered, middle, worst, strict=True)]
    return [cell, str(repeats), *figures[0], *figures[1], f"{middle[1] / middle[0]:.2f}", f"{np.median(seconds):.2f}"]


def main(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default="logistic")
    parser.add_argument("--law", default="normal")
    parser.add_argument("--sizes", default="3000,20000")
    parser.add_argument("--epsilons", default="0.3,1,3")
    parser.add_argument("--dimensions", default="3,10")
    parser.add_argument("--repeats", type=int, default=40)
    given = parser.parse_args(words)
    numbers = ([float(word) for word in part.split(",")] for part in (given.sizes, given.epsilons, given.dimensions))
    lines = []
    for n, epsilon, d in itertools.product(*numbers):
        lines.append(compare(given.family, given.law, int(n), epsilon, int(d), given.repeats))
        print(" | ".join(lines[-1]), flush=True)
    head = ["cell", "repeats"]
    head += [f"{kind}: {word}" for kind in ("last look", "all looks") for word in ("coverage", "width/oracle", "worst")]
    show("One likelihood over all looks", [*head, "all/last", "s"], lines)


if __name__ == "__main__":
    main()
