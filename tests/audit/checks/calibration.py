"""Calibration sees public things alone, and what comes of it keeps the promise."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sottovoce.audit.checks.result import check, verdict
from sottovoce.mechanisms import (
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    Mechanism,
    NoisyStatistics,
    StatisticalQuery,
    TemperedPosterior,
)
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.privacy.errors import BudgetExceeded
from sottovoce.privacy.promises import ApproxDP, GaussianDP, Promise, PureDP, RenyiDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.service.curator import Curator

__all__ = ["DataTouched", "Untouchable", "blind", "promises_kept", "same_for_all_data"]


class DataTouched(Exception):
    """Data was touched where it must not be."""


class Untouchable:
    """A column of records that raises on any access."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise DataTouched(f"data was touched: {name}")

    def _touch(self, *_: object) -> NoReturn:
        raise DataTouched("data was touched")

    __iter__ = __len__ = __getitem__ = __array__ = __bool__ = __eq__ = __hash__ = __call__ = _touch


class _SealedTable:
    """A table with public facts, whose records nobody may read."""

    schema = {"smoker": "boolean"}  # noqa: RUF012 - a fact
    grows = False

    def count(self) -> int:
        return 20

    def check(self, reading: Any, column: Any = None, *, where: Any = None, missing: Any = None) -> None:
        """Accept any question."""

    def read(self, reading: Any, column: Any = None, *, where: Any = None, missing: Any = None) -> Any:
        raise DataTouched("records were read")

    def ensure_available(self) -> bool:
        """Be there."""
        return False

    def close(self) -> None:
        """Hold nothing open."""


def _calibrated(predicate: Any) -> list[tuple[Mechanism, Promise]]:
    """Return mechanisms of every kind with the promise that each was calibrated for."""
    beta, renyi, approx = BetaBernoulli(6, 12), RenyiDP(2.0, 0.05), ApproxDP(1.0, 1e-4)
    three, poisson = DirichletCategorical([2.0, 3.0, 4.0]), GammaPoisson(6, 2, high=3)
    mean, waiting = NormalMean(1.0, 1.0, bounds=(-1.0, 1.0)), GammaExponential(5, 12, high=2.0)
    return [
        (DirectPosterior.calibrate(beta, 20, RenyiDP(2.0, 0.3)), RenyiDP(2.0, 0.3)),
        (DiffusedPosterior.calibrate(beta, 20, renyi), renyi),
        (DiffusedPosterior.calibrate(mean, 20, GaussianDP(0.1)), GaussianDP(0.1)),
        (DiffusedPosterior.calibrate(waiting, 20, approx), approx),
        (ConcentratedPosterior.calibrate(three, 20, renyi), renyi),
        (ConcentratedPosterior.calibrate(poisson, 20, approx), approx),
        (StatisticalQuery.calibrate(beta, 20, approx, predicate=predicate), approx),
        (TemperedPosterior.calibrate(beta, 20, PureDP(0.5)), PureDP(0.5)),
        (TemperedPosterior.calibrate(poisson, 20, ZeroConcentratedDP(0.1), (0.5, 4.0)), ZeroConcentratedDP(0.1)),
        (NoisyStatistics.calibrate(beta, 20, PureDP(0.5)), PureDP(0.5)),
        (NoisyStatistics.calibrate(three, 20, approx, "gaussian"), approx),
    ]


@check("calibration keeps the promise")
def promises_kept() -> tuple[bool, str]:
    """What was calibrated for a promise keeps it, by its own profile, and is not needlessly timid."""
    problems, tightest = [], []
    for mechanism, promise in _calibrated(abs):
        excess = mechanism.profile.excess(promise)
        tightest.append(excess)
        if excess > 0:
            problems.append(f"{mechanism.describe()} exceeds {promise} by {excess:.3g}")
    return verdict(problems, f"{len(tightest)} mechanisms, the nearest {-max(tightest):.2g} below its promise")


@check("calibration touches no data")
def blind() -> tuple[bool, str]:
    """Calibrate with data in reach that raises on any access; open a budget and be refused, all unread."""
    calibrated = _calibrated(Untouchable())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "sealed.ledger"
        with Curator(_SealedTable(), place, PureDP(0.1), dataset="sealed") as curator:
            curator.remaining()
            costly = NoisyStatistics(BetaBernoulli(1, 1), 20, "laplace", 1.0)
            costly.forecast(0.3)
            with contextlib.suppress(BudgetExceeded):
                curator.release(costly, "smoker")
                return False, "a release beyond the budget was let out"
    return True, f"{len(calibrated)} calibrations, a forecast and a refusal, and no record was read"


@check("public numbers do not depend on data")
def same_for_all_data() -> tuple[bool, str]:
    """A mechanism says the same of itself whatever it was shown, and is not changed by a release."""
    problems = []
    for mechanism, _ in _calibrated(abs):
        before = mechanism.to_dict()
        shown = [mechanism.release(_records(mechanism, k), seeded_rng(k)) for k in (0, 1)]
        if not before == shown[0].mechanism == shown[1].mechanism == mechanism.to_dict():
            problems.append(f"{mechanism.describe()} describes itself differently after other data")
        if shown[0].profile != shown[1].profile:
            problems.append(f"{mechanism.describe()} claims a profile that depends on the data")
    return verdict(problems, "the same numbers and profiles for all data")


def _records(mechanism: Mechanism, k: int) -> Any:
    return np.full(mechanism.n, k)
