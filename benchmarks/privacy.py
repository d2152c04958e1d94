"""Profiles and composition beside dp-accounting doing the same work in the same run."""

from __future__ import annotations

import numpy as np
from dp_accounting import dp_event, get_epsilon_gaussian
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant

from benchmarks.timing import best, show
from sottovoce.privacy import (
    BetaPairs,
    BoundedRangeProfile,
    DiscreteLaplaceProfile,
    GammaShapePairs,
    GaussianProfile,
    LaplaceProfile,
    LikelihoodRatioProfile,
    PureProfile,
    RenyiProfile,
    ZeroConcentratedProfile,
)

DELTA = 1e-6


def _zcdp_peer() -> float:
    accountant = RdpAccountant()
    accountant.compose(dp_event.ZCDpEvent(rho=0.1))
    return float(accountant.get_epsilon(DELTA))


def profiles() -> None:
    """Time ε(1e-6), from building the object to the number."""
    beta = BetaPairs(6, 12, 1, 99)
    cases = [
        ("Gaussian", lambda: GaussianProfile(0.5).epsilon(DELTA), lambda: get_epsilon_gaussian(2.0, DELTA)),
        (
            "pure",
            lambda: PureProfile(1.0).epsilon(DELTA),
            lambda: pld.from_randomized_response(2 / (1 + float(np.e)), 2).get_epsilon_for_delta(DELTA),
        ),
        ("bounded range", lambda: BoundedRangeProfile(1.0).epsilon(DELTA), None),
        ("zCDP", lambda: ZeroConcentratedProfile(0.1).epsilon(DELTA), _zcdp_peer),
        ("Rényi table", lambda: RenyiProfile((2.0, 8.0, 32.0), (0.1, 0.4, 1.6)).epsilon(DELTA), None),
        (
            "Laplace",
            lambda: LaplaceProfile(1.0).epsilon(DELTA),
            lambda: pld.from_laplace_mechanism(1.0).get_epsilon_for_delta(DELTA),
        ),
        (
            "discrete Laplace",
            lambda: DiscreteLaplaceProfile(5.0, 3).epsilon(DELTA),
            lambda: pld.from_discrete_laplace_mechanism(0.2, 3).get_epsilon_for_delta(DELTA),
        ),
        ("Beta posterior, n = 100", lambda: LikelihoodRatioProfile((beta,)).epsilon(DELTA), None),
        ("Gamma posterior", lambda: LikelihoodRatioProfile((GammaShapePairs(6, 1),)).epsilon(DELTA), None),
    ]
    rows = []
    for name, ours, theirs in cases:
        mine = best(ours)
        peer = best(theirs) if theirs is not None else None
        rows.append(
            (
                name,
                f"{1e6 * mine:,.0f} µs",
                "–" if peer is None else f"{1e6 * peer:,.0f} µs",
                "–" if peer is None else f"{mine / peer:.3f}",
                f"{ours():.6f}",
                "–" if theirs is None else f"{theirs():.6f}",
            )
        )
    show("ε at δ = 1e-6", ("profile", "ours", "dp-accounting", "ratio", "our ε", "their ε"), rows)


def composition() -> None:
    """Time ε(1e-6) of many releases, from nothing to the number."""

    def ours_gaussian() -> float:
        return (1000 * GaussianProfile(0.02)).epsilon(DELTA)

    def theirs_gaussian() -> float:
        return float(pld.from_gaussian_mechanism(50.0).self_compose(1000).get_epsilon_for_delta(DELTA))

    def ours_laplace() -> float:
        return (1000 * LaplaceProfile(50.0)).epsilon(DELTA)

    def theirs_laplace() -> float:
        return float(pld.from_laplace_mechanism(50.0).self_compose(1000).get_epsilon_for_delta(DELTA))

    def ours_mixed() -> float:
        return (500 * LaplaceProfile(50.0) + 499 * PureProfile(0.02) + GaussianProfile(0.4)).epsilon(DELTA)

    def theirs_mixed() -> float:
        response = 2 / (1 + float(np.exp(0.02)))  # the chance of a random answer that makes it 0.02-private
        both = (
            pld.from_laplace_mechanism(50.0)
            .self_compose(500)
            .compose(pld.from_randomized_response(response, 2).self_compose(499))
        )
        return float(both.compose(pld.from_gaussian_mechanism(2.5)).get_epsilon_for_delta(DELTA))

    rows = []
    for name, ours, theirs in (
        ("1,000 Gaussian", ours_gaussian, theirs_gaussian),
        ("1,000 Laplace", ours_laplace, theirs_laplace),
        ("1,000 mixed", ours_mixed, theirs_mixed),
    ):
        mine, peer = best(ours, 3, 0.5), best(theirs, 3, 0.5)
        row = (f"{1e3 * mine:.2f} ms", f"{1e3 * peer:.2f} ms", f"{mine / peer:.3f}", f"{ours():.6f}", f"{theirs():.6f}")
        rows.append((name, *row))
    show("Composition, ε at δ = 1e-6", ("releases", "ours", "dp-accounting", "ratio", "our ε", "their ε"), rows)


def main(quick: bool = False) -> None:
    """Print both tables."""
    del quick
    profiles()
    composition()


if __name__ == "__main__":
    main()
