"""Money first: what the ledger on disk holds at the moment the first record is read."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np

from sottovoce.audit.checks.result import check, verdict
from sottovoce.mechanisms import DiffusedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.errors import BudgetExceeded, InvalidData, InvalidValue, SottovoceError
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import GaussianDP, RenyiDP
from sottovoce.records.readings import Statistics
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Ledger, State

_N = 20
_BUDGET = RenyiDP(order=2.0, epsilon=1.0)


class _WatchedTable:
    """A table that calls someone at the moment its records are read."""

    schema = {"smoker": "boolean"}  # noqa: RUF012 - a fact
    grows = False

    def __init__(self, on_read: Callable[[], None]) -> None:
        self._on_read = on_read

    def count(self) -> int:
        return _N

    def check(self, reading: object, column: object = None, *, where: object = None, missing: object = None) -> None:
        """Accept any question."""

    def read(
        self, reading: object, column: object = None, *, where: object = None, missing: object = None
    ) -> Statistics:
        self._on_read()
        return Statistics(_N, np.array([7.0]))

    def ensure_available(self) -> bool:
        """Be there."""
        return False

    def close(self) -> None:
        """Hold nothing open."""


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the ledger from warning of entries that are pending on purpose."""
    log = logging.getLogger("sottovoce.service.ledger")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def _curator(on_read: Callable[[Path], None]) -> Iterator[tuple[Curator, Path]]:
    with _quiet(), tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "watched.ledger"
        with Curator(_WatchedTable(lambda: on_read(place)), place, _BUDGET, dataset="watched", who="audit") as curator:
            yield curator, place


def _mechanism() -> DiffusedPosterior:
    return DiffusedPosterior(BetaBernoulli(6, 12), _N, 0.8)


def _spent(place: Path) -> Fraction:
    with Ledger(place) as other:
        return other.spent(other.budget("watched"))


@check("the budget is spent before the first read")
def spend_first() -> tuple[bool, str]:
    """At the first read the reservation, with its whole cost, must be on disk already."""
    mechanism = _mechanism()
    cost = Fraction(float(mechanism.profile.renyi(2.0)))
    seen: list[tuple[list[str], Fraction]] = []

    def look(place: Path) -> None:
        with Ledger(place) as other:
            seen.append(([str(e.state) for e in other.entries()], other.spent(other.budget("watched"))))

    with _curator(look) as (curator, place):
        for draws in (1, 2):
            curator.release(mechanism, "smoker", draws=draws)
        history = [str(e.state) for e in curator.history()]
        final = _spent(place)
    problems = []
    if len(seen) != 2:
        problems.append(f"two releases read the data {len(seen)} times")
    for (states, spent), before, owed in zip(seen, ([], ["committed"]), (cost, 3 * cost), strict=False):
        if states != [*before, "pending"]:
            problems.append(f"at the read the ledger held {states}, and no new reservation")
        if spent < owed * (1 - Fraction(1, 10**12)):
            problems.append(f"at the read {float(spent):.6g} was spent and {float(owed):.6g} was due")
    if history != ["committed", "committed"] or final < 3 * cost * (1 - Fraction(1, 10**12)):
        problems.append(f"in the end {float(final):.6g} was spent on {history}")
    return verdict(problems, f"{float(cost):.6g} and twice that were on disk before their reads")


@check("failed reads stay spent")
def failures_stay_spent() -> tuple[bool, str]:
    """A release that fails once the data may have been read is charged all the same."""

    def fail(_: Path) -> None:
        raise InvalidData("the disk is on fire")

    mechanism, problems = _mechanism(), []
    with _curator(fail) as (curator, place):
        try:
            curator.release(mechanism, "smoker")
            problems.append("a release without data was let out")
        except InvalidData:
            pass
        spent, states = _spent(place), [str(e.state) for e in curator.history()]
    if states != [str(State.LOST)] or not spent:
        problems.append(f"after a failed read {float(spent):.6g} is spent, on entries {states}")
    return verdict(problems, f"{float(spent):.6g} stays spent after a failed read")


@check("what is pending counts as spent")
def pending() -> tuple[bool, str]:
    """Reservations that nobody has committed yet must leave no room for more than the budget."""
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "pending.ledger", create=True) as ledger:
        budget = ledger.open_budget("p", GaussianDP(1.0), n=1, schema={"x": "boolean"})
        profile, let = GaussianProfile(0.5), 0
        try:
            while let < 10:
                ledger.reserve(budget, profile, {"question": let})
                let += 1
        except BudgetExceeded:
            pass
        total = float(ledger.spent(budget))
    problems = [] if let == 4 else [f"a budget of μ² = 1 let {let} reservations of 0.25 be pending at once"]
    return verdict(problems, f"four reservations of 0.25 fill a budget of 1, the fifth is refused ({total:g} spent)")


@check("a key is charged once and answers one question")
def keys() -> tuple[bool, str]:
    """The first request under a key pays in full; a retry gets the same answer; another question is refused."""
    mechanism, reads = _mechanism(), list[Path]()
    cost = Fraction(float(mechanism.profile.renyi(2.0)))
    with _curator(reads.append) as (curator, place):
        first = curator.release(mechanism, "smoker", idempotency_key="k")
        once = _spent(place)
        again = curator.release(mechanism, "smoker", idempotency_key="k")
        twice = _spent(place)
        try:
            curator.release(mechanism, "smoker", idempotency_key="k", draws=2)
            other = "answered"
        except (InvalidValue, SottovoceError):
            other = "refused"
    problems = []
    if once < cost:
        problems.append(f"the first request under a key paid {float(once):.6g} of {float(cost):.6g}")
    if (again.value, twice, len(reads)) != (first.value, once, 1):
        problems.append("a retry was not the stored answer at no cost")
    if other != "refused":
        problems.append("another question under the same key was answered")
    return verdict(problems, "paid once, answered twice, another question refused")
