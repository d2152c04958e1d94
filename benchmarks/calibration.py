"""Calibration: how much noise each library asks for one promise, and how long it takes to say so."""

from __future__ import annotations

import math
from collections.abc import Callable

import opendp.prelude as dp
from dp_accounting import get_sigma_gaussian

from benchmarks.peers.environment import PeerUnavailable, ask, pins_of
from benchmarks.timing import best, show
from sottovoce.mechanisms import NoisyStatistics
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.promises import ApproxDP, PureDP

DELTA, EPSILONS = 1e-6, (0.1, 1.0, 4.0)
Found = tuple[float, float]  # a scale, and the seconds it took


def timed(call: Callable[[], float]) -> Found:
    """Return what the call returns, and its seconds."""
    return call(), best(call, 3, 0.3)


def ours(noise: str, epsilon: float) -> float:
    """Return the scale of our noise on a count."""
    target = PureDP(epsilon) if noise == "laplace" else ApproxDP(epsilon, DELTA)
    return NoisyStatistics.calibrate(BetaBernoulli(1, 1), 1000, target, noise=noise).scale  # type: ignore[arg-type]


def opendp_laplace(epsilon: float) -> float:
    """Return the scale that OpenDP finds for Laplace noise on an integer of sensitivity 1."""
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    return float(dp.binary_search_param(lambda b: dp.m.make_laplace(*space, scale=b), d_in=1, d_out=epsilon))


def opendp_gaussian(epsilon: float) -> float:
    """Return the scale that OpenDP finds for Gaussian noise on an integer of sensitivity 1, by way of zCDP."""
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")

    def measurement(scale: float) -> dp.Measurement:
        concentrated = dp.m.make_gaussian(*space, scale=scale)
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(concentrated), delta=DELTA)

    return float(dp.binary_search_param(measurement, d_in=1, d_out=(epsilon, DELTA)))


def isolated(name: str, question: dict[str, object]) -> tuple[dict[str, dict[str, Found]], str]:
    """Return a peer's answers and a note, or no answers and the reason."""
    try:
        return ask(name, question), f"{name} ran in an environment of its own ({pins_of(name)})."
    except PeerUnavailable as reason:
        return {}, f"Without {name}: {reason}."


def cell(found: Found | None, mine: Found) -> str:
    """Write a scale beside ours, and our time as a part of theirs."""
    return "–" if found is None else f"{found[0]:.4f} ({mine[1] / found[1]:.2g})"


def main(quick: bool = False) -> None:
    """Print one table for each noise."""
    del quick
    dp.enable_features("contrib")
    autodp, first = isolated("autodp", {"delta": DELTA, "gaussian_scale": EPSILONS})
    diffprivlib, second = isolated("diffprivlib", {"scales": {"epsilons": EPSILONS, "delta": DELTA}})
    note = "A smaller scale is less noise. In brackets: our time divided by theirs."
    rows = []
    for epsilon in EPSILONS:
        mine = timed(lambda e=epsilon: ours("gaussian", e))
        peers = [
            diffprivlib.get("discrete_gaussian", {}).get(str(epsilon)),
            timed(lambda e=epsilon: opendp_gaussian(e)),
            timed(lambda e=epsilon: get_sigma_gaussian(e, DELTA)),
            autodp.get("gaussian_scale", {}).get(str(epsilon)),
            diffprivlib.get("gaussian", {}).get(str(epsilon)),
        ]
        rows.append(
            [f"({epsilon:g}, 1e-6)", f"{mine[0]:.4f}", f"{1e3 * mine[1]:.2f} ms", *(cell(p, mine) for p in peers)]
        )
    for epsilon in EPSILONS:
        for found in (ours("laplace", epsilon), opendp_laplace(epsilon)):
            assert math.isclose(found, 1 / epsilon, rel_tol=1e-9)
    show(
        "σ of Gaussian noise on a count",
        ["promise", "ours", "our time", "diffprivlib", "OpenDP", "dp-accounting*", "autodp*", "diffprivlib*"],
        rows,
        f"{note} A star: continuous noise, which a computer cannot draw. {first} {second} Laplace noise has the scale "
        "of OpenDP's, to the digit.",
    )


if __name__ == "__main__":
    main()
