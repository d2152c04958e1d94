"""Profiles and composition beside dp-accounting and autodp doing the same work in the same run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from dp_accounting import dp_event, get_epsilon_gaussian
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant

from benchmarks.peers.environment import PeerUnavailable, ask, pins_of
from benchmarks.timing import best, show
from sottovoce.privacy import (
    DiscreteGaussianProfile,
    DiscreteLaplaceProfile,
    GaussianProfile,
    LaplaceProfile,
    PureProfile,
    ZeroConcentratedProfile,
)

DELTA = 1e-6


def _zcdp_peer() -> float:
    accountant = RdpAccountant()
    accountant.compose(dp_event.ZCDpEvent(rho=0.1))
    return float(accountant.get_epsilon(DELTA))


@dataclass(frozen=True)
class Case:
    """One number to compute: by us, by dp-accounting in this process, by autodp in its own."""

    name: str
    ours: Callable[[], float]
    accounting: Callable[[], float] | None = None
    autodp: tuple[tuple[str, float, int], ...] = ()


def compare(title: str, cases: list[Case]) -> None:
    """Time each number from nothing, and set the numbers beside each other."""
    try:
        question = {case.name: case.autodp for case in cases if case.autodp}
        other = ask("autodp", {"delta": DELTA, "epsilon": question})["epsilon"]
        note = f"autodp ran in an environment of its own ({pins_of('autodp')}); it composes Rényi curves."
    except PeerUnavailable as reason:
        other, note = {}, f"Without autodp: {reason}."
    rows = []
    for case in cases:
        seconds, row = best(case.ours, 5, 0.4), []
        theirs = (case.accounting(), best(case.accounting, 5, 0.4)) if case.accounting else None
        for found in (theirs, other.get(case.name)):
            row += ["–", "–"] if found is None else [f"{found[0]:.6f}", f"{seconds / found[1]:.3g}"]
        rows.append([case.name, f"{case.ours():.6f}", f"{1e3 * seconds:.3g} ms", *row])
    columns = ("", "our ε", "our time", "dp-accounting's ε", "our time / theirs", "autodp's ε", "our time / theirs")
    show(title, columns, rows, note)


def profiles() -> None:
    """Compute ε(1e-6) of single releases."""
    cases = [
        Case(
            "Gaussian noise, σ = 2",
            lambda: GaussianProfile(0.5).epsilon(DELTA),
            lambda: get_epsilon_gaussian(2.0, DELTA),
            (("gaussian", 2.0, 1),),
        ),
        Case(
            "pure ε = 1",
            lambda: PureProfile(1.0).epsilon(DELTA),
            lambda: pld.from_randomized_response(2 / (1 + float(np.e)), 2).get_epsilon_for_delta(DELTA),
            (("response", 1 / (1 + float(np.exp(-1))), 1),),
        ),
        Case("zCDP, ρ = 0.1", lambda: ZeroConcentratedProfile(0.1).epsilon(DELTA), _zcdp_peer),
        Case(
            "Laplace noise, b = 1",
            lambda: LaplaceProfile(1.0).epsilon(DELTA),
            lambda: pld.from_laplace_mechanism(1.0).get_epsilon_for_delta(DELTA),
            (("laplace", 1.0, 1),),
        ),
        Case(
            "discrete Laplace noise, b = 5, Δ = 3",
            lambda: DiscreteLaplaceProfile(5.0, 3).epsilon(DELTA),
            lambda: pld.from_discrete_laplace_mechanism(0.2, 3).get_epsilon_for_delta(DELTA),
        ),
        Case(
            "discrete Gaussian noise, σ = 2",
            lambda: DiscreteGaussianProfile(2.0).epsilon(DELTA),
            lambda: pld.from_discrete_gaussian_mechanism(2.0).get_epsilon_for_delta(DELTA),
        ),
    ]
    compare("ε at δ = 1e-6, one release", cases)


def composition() -> None:
    """Compute ε(1e-6) of many releases."""
    response = 2 / (1 + float(np.exp(0.02)))  # the chance of a random answer that makes it 0.02-private

    def theirs_mixed() -> float:
        both = (
            pld.from_laplace_mechanism(50.0)
            .self_compose(500)
            .compose(pld.from_randomized_response(response, 2).self_compose(499))
        )
        return float(both.compose(pld.from_gaussian_mechanism(2.5)).get_epsilon_for_delta(DELTA))

    cases = [
        Case(
            "1,000 Gaussian, σ = 50",
            lambda: (1000 * GaussianProfile(0.02)).epsilon(DELTA),
            lambda: pld.from_gaussian_mechanism(50.0).self_compose(1000).get_epsilon_for_delta(DELTA),
            (("gaussian", 50.0, 1000),),
        ),
        Case(
            "1,000 Laplace, b = 50",
            lambda: (1000 * LaplaceProfile(50.0)).epsilon(DELTA),
            lambda: pld.from_laplace_mechanism(50.0).self_compose(1000).get_epsilon_for_delta(DELTA),
            (("laplace", 50.0, 1000),),
        ),
        Case(
            "500 Laplace, 499 pure, 1 Gaussian",
            lambda: (500 * LaplaceProfile(50.0) + 499 * PureProfile(0.02) + GaussianProfile(0.4)).epsilon(DELTA),
            theirs_mixed,
            (("laplace", 50.0, 500), ("response", 1 - response / 2, 499), ("gaussian", 2.5, 1)),
        ),
    ]
    compare("ε at δ = 1e-6, many releases", cases)


def main(quick: bool = False) -> None:
    """Print both tables."""
    del quick
    profiles()
    composition()


if __name__ == "__main__":
    main()
