"""autodp: ε at δ of noise and of many releases, and the noise it asks for a promise. Runs in an environment of its own.

The question is ``{"delta": δ, "epsilon": {name: [[kind, scale, count], ...]}, "gaussian_scale": [ε, ...]}``; the answer
has ``[value, seconds]`` for each.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from autodp.calibrator_zoo import ana_gaussian_calibrator
from autodp.mechanism_zoo import ExactGaussianMechanism, GaussianMechanism, LaplaceMechanism, RandresponseMechanism
from autodp.transformer_zoo import Composition
from clock import best  # the file beside this one

KINDS: dict[str, Callable[[float], Any]] = {
    "gaussian": lambda scale: ExactGaussianMechanism(sigma=scale),
    "laplace": lambda scale: LaplaceMechanism(b=scale),
    "response": lambda p: RandresponseMechanism(p=p),
}


def epsilon(parts: list[tuple[str, float, int]], delta: float) -> float:
    """Return ε at δ of so many releases of each kind and scale; many are composed as Rényi curves, its default."""
    if len(parts) == 1 and parts[0][2] == 1:
        return float(KINDS[parts[0][0]](parts[0][1]).get_approxDP(delta))
    mechanisms = [KINDS[kind](scale) for kind, scale, _ in parts]
    return float(Composition()(mechanisms, [count for _, _, count in parts]).get_approxDP(delta))


def gaussian_scale(promise: float, delta: float) -> float:
    """Return the least σ that keeps (ε, δ)."""
    return float(ana_gaussian_calibrator()(GaussianMechanism, promise, delta).params["sigma"])


def timed(call: Callable[[], float]) -> tuple[float, float]:
    """Return what the call returns, and its seconds."""
    return call(), best(call, 3, 0.3)


def main() -> None:
    """Answer one question."""
    question = json.load(sys.stdin)
    delta = question["delta"]
    answer = {
        "epsilon": {
            name: timed(lambda parts=parts: epsilon(parts, delta))
            for name, parts in question.get("epsilon", {}).items()
        },
        "gaussian_scale": {
            str(promise): timed(lambda promise=promise: gaussian_scale(promise, delta))
            for promise in question.get("gaussian_scale", [])
        },
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
