"""Check a mechanism of anyone's: what every mechanism must do before a curator, a ledger and a server can trust it."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.audit.check_reading import InMemory, Record, frame_of, typical_records, with_odd_cells
from sottovoce.audit.checks.result import CheckResult, attempt, verdict
from sottovoce.audit.engine import FEWEST, audit
from sottovoce.audit.report import Verdict
from sottovoce.mechanisms import Mechanism, Release
from sottovoce.mechanisms.mechanism import MECHANISMS
from sottovoce.privacy.errors import BudgetExceeded, InvalidData, InvalidValue, UnprovenPrivacy
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import Promise, PureDP, RenyiDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import ReadableRecords

_EPSILONS = np.array([0.0, 1e-6, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0])
_ORDERS = np.array([1.0, 1.01, 1.5, 2.0, 4.0, 16.0, 64.0])
_DELTAS = (1e-2, 1e-6)
_FEW = 5
"""Records that a mechanism is shown to which their number is a secret."""
_TRIED, _SECONDS = 64, 10.0
"""Draws by which it is told how long an audit takes, and how long it may take with more than the fewest draws."""


def check_mechanism(
    mechanism: Mechanism, *, draws: int | None = 4000, seed: int = 0, fresh: bool = True
) -> tuple[CheckResult, ...]:
    """Hold a mechanism to what every mechanism must do, and return what each check says.

    Its public numbers read back, also in a fresh process; its profile is a profile; its worst pair are neighbours; it
    takes n records and no others; a seeded release says so; no record makes it fail, warn or answer in another kind;
    a curator charges it before any record is read, once for one key; and a short audit finds no violation.

    Parameters
    ----------
    mechanism
        Built for a few records; it is shown made-up ones.
    draws, seed
        For the audit, of fewer draws where they take long; see `audit`. None leaves it out.
    fresh
        Whether to start the fresh process, which takes a second.

    Examples
    --------
    >>> from sottovoce.mechanisms import DirectPosterior
    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> results = check_mechanism(DirectPosterior(BetaBernoulli(6, 12), n=4), fresh=False)
    >>> [result.name for result in results if not result.passed]
    []
    """
    if not isinstance(mechanism, Mechanism):
        raise InvalidValue(f"expected a mechanism. Got a {type(mechanism).__name__}")
    if mechanism.n is not None and mechanism.n < 1:
        raise InvalidValue("a mechanism for n=0 records shows nothing; check one for a few")
    parts = {
        "its public numbers read back": _read_back,
        "its profile is one": _profile,
        "its worst pair are neighbours": _pair,
        "it takes n records and no others": _sizes,
        "releases say how they were drawn": _drawn,
        "no record makes it fail": _odd,
        "a curator charges it before it reads": _charged,
    }
    results = [attempt(name, lambda part=part: part(mechanism)) for name, part in parts.items()]  # type: ignore[misc]
    if draws is not None:
        results.append(attempt("a short audit finds nothing", lambda: _audited(mechanism, draws, seed)))
    if fresh:
        results.append(attempt("a fresh process reads it", lambda: _elsewhere(mechanism)))
    return tuple(results)


def _records(mechanism: Mechanism, n: int | None = None) -> list[Record]:
    size = mechanism.n if n is None else n
    return list(islice(cycle(typical_records(mechanism.reading)), _FEW if size is None else size))


def _release(mechanism: Mechanism, records: Sequence[Record], rng: Any = None) -> Release:
    unproven = mechanism.profile.basis is Basis.CONVERGENCE
    return mechanism.release(InMemory(records), rng, accept_unproven=unproven)


def _same(first: Release, second: Release) -> bool:
    return bool(json.loads(first.to_json()) == json.loads(second.to_json()))


def _read_back(mechanism: Mechanism) -> tuple[bool, str]:
    word = mechanism.word
    if word not in MECHANISMS:
        return False, f"no mechanism is registered as {word!r}: name it as an entry point, or MECHANISMS.add it"
    state = json.loads(json.dumps(mechanism.to_dict(), allow_nan=False))
    again = Mechanism.from_dict(state)
    problems = []
    if type(again) is not type(mechanism) or json.loads(json.dumps(again.to_dict())) != state:
        problems.append("another mechanism comes back from its public numbers")
    ours, theirs = mechanism.profile, Profile.from_dict(json.loads(json.dumps(again.profile.to_dict())))
    if not np.array_equal(ours.delta(_EPSILONS), theirs.delta(_EPSILONS)):
        problems.append("its profile is another when it was read back")
    if not isinstance(mechanism.describe(), str) or "\n" in mechanism.describe():
        problems.append("it does not describe itself in one line")
    return verdict(problems, "the same mechanism, built without data")


def _profile(mechanism: Mechanism) -> tuple[bool, str]:
    problems, profile = [], mechanism.profile
    deltas, curve = np.asarray(profile.delta(_EPSILONS)), np.asarray(profile.renyi(_ORDERS))
    if not np.all((deltas >= 0) & (deltas <= 1)) or np.any(np.diff(deltas) > 0):
        problems.append("δ(ε) must lie in [0, 1] and fall")
    if not np.all(curve >= 0) or np.any(np.diff(curve[np.isfinite(curve)]) < -1e-12 * curve[np.isfinite(curve)][1:]):
        problems.append("the Rényi curve must be >= 0 and rise")
    for delta in _DELTAS:
        epsilon = float(profile.epsilon(delta))
        if not (epsilon >= 0 and (np.isinf(epsilon) or profile.delta(epsilon) <= delta * (1 + 1e-9))):
            problems.append(f"ε({delta:g}) is no ε of the profile")
    if np.any(np.asarray(mechanism.cost().delta(_EPSILONS)) < deltas):
        problems.append("a release costs less than its profile says")
    return verdict(problems, f"δ(0) = {deltas[0]:.3g}, basis {profile.basis.value}")


def _pair(mechanism: Mechanism) -> tuple[bool, str]:
    problems, draws = [], 64
    pair = mechanism.worst_pair()
    first, second = (mechanism.see(item) for item in pair)
    if mechanism.relation != mechanism.profile.relation:
        problems.append(f"its profile is about {mechanism.profile.relation}, not {mechanism.relation}")
    if not mechanism.reading.neighbours(first, second, mechanism.relation):
        problems.append("its worst pair differs by more than one record")
    outputs = np.asarray(mechanism.outputs(first, seeded_rng(1), draws))
    if len(outputs) != draws or not np.all(np.isfinite(outputs)):
        problems.append(f"{draws} outputs were asked for, all finite numbers")
    ratio = mechanism.log_ratio(pair)
    if ratio is not None and np.shape(ratio(outputs)) != (draws,):
        problems.append("its likelihood ratio must give one number an output")
    known = "known" if ratio is not None else "not known"
    return verdict(problems, f"neighbours; their likelihood ratio is {known}")


def _sizes(mechanism: Mechanism) -> tuple[bool, str]:
    problems = []
    if mechanism.n is None:
        for n in (1, _FEW, 3 * _FEW):
            _release(mechanism, _records(mechanism, n), seeded_rng(1))
        return True, "any number of records is taken: n is a secret"
    for n in {mechanism.n + 1, max(mechanism.n - 1, 1)} - {mechanism.n}:
        try:
            _release(mechanism, _records(mechanism, n), seeded_rng(1))
            problems.append(f"{n} records were taken for {mechanism.n}")
        except InvalidData:
            pass
    return verdict(problems, "other numbers of records are refused")


def _drawn(mechanism: Mechanism) -> tuple[bool, str]:
    problems, records, before = [], _records(mechanism), mechanism.to_dict()
    seeded, again, secure = (_release(mechanism, records, rng) for rng in (seeded_rng(5), seeded_rng(5), None))
    if not seeded.reproducible or secure.reproducible:
        problems.append("a seeded release must be marked as reproducible, and a secure one not")
    if not _same(seeded, again):
        problems.append("the same seed gives another release")
    if not _same(Release.from_json(secure.to_json()), secure):
        problems.append("a release does not read back from its JSON")
    if mechanism.to_dict() != before or dict(secure.mechanism) != before:
        problems.append("a release changed the mechanism")
    if mechanism.profile.basis is Basis.CONVERGENCE:
        try:
            mechanism.release(InMemory(records))
            problems.append("an unproven profile was released without a word")
        except UnprovenPrivacy:
            pass
    return verdict(problems, "seeded, secure, and read back")


def _kind(value: Any) -> Any:
    state = value.to_dict() if hasattr(value, "to_dict") else None
    return type(value), sorted(state) if state else np.shape(value)


def _odd(mechanism: Mechanism) -> tuple[bool, str]:
    problems, tried, records = [], 0, _records(mechanism)
    kind = _kind(_release(mechanism, records, seeded_rng(2)).value)
    known: set[bytes] = set()
    for odd in with_odd_cells(records[0]):
        tried += 1
        cells = "a cell that is " + ", ".join({type(cell).__name__ for cell in odd})
        shown = [odd, *records[1:]]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                seen = mechanism.see(InMemory(shown))
                # What is seen alike is answered alike: nothing else of a record reaches a release, unless it is made
                # in a way of its own.
                alike = pickle.dumps(seen.look(mechanism.reading) if isinstance(seen, ReadableRecords) else seen)
                if alike in known and type(mechanism).release is Mechanism.release:
                    continue
                known.add(alike)
                release = _release(mechanism, shown, seeded_rng(2))
                outputs = mechanism.outputs(seen, seeded_rng(2), 2)
        except Exception as error:
            problems.append(f"{cells}: {type(error).__name__}")
            continue
        if _kind(release.value) != kind or not np.all(np.isfinite(outputs)):
            problems.append(f"{cells}: the answer is of another kind, or no finite number")
    return verdict(problems, f"{tried} odd records, each answered as any other")


class _Watched:
    """A table that notes, each time it is read, how many entries of a ledger are paid for and open."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.curator: Any = None
        self.open: list[int] = []
        self.schema = table.schema

    def count(self) -> int:
        return int(self._table.count())

    def check(self, reading: Any, column: Any = None, *, where: Any = None, missing: Any = None) -> None:
        self._table.check(reading, column, where=where, missing=missing)

    def read(self, reading: Any, column: Any = None, *, where: Any = None, missing: Any = None) -> Any:
        self.open.append(len(self.curator.pending()))
        return self._table.read(reading, column, where=where, missing=missing)

    def close(self) -> None:
        """Leave the table open."""


def _budget(profile: Profile) -> Promise | None:
    """Return a budget that covers one release twice over; None where no ledger counts what it costs."""
    if np.isfinite(profile.pure()):
        return PureDP(3 * profile.pure() + 1, relation=profile.relation)
    order = (1 + min(float(profile.pole), 3.0)) / 2
    cost = float(profile.renyi(order))
    return RenyiDP(order, 3 * cost + 1, relation=profile.relation) if np.isfinite(cost) else None


def _charged(mechanism: Mechanism) -> tuple[bool, str]:
    if not (find_spec("ibis") and find_spec("pyarrow")):
        return True, "no tables are installed"
    from sottovoce.records.tables import open_table  # noqa: PLC0415 - an extra
    from sottovoce.records.tables.query_plans import PLANS  # noqa: PLC0415
    from sottovoce.service.curator import Curator  # noqa: PLC0415 - only here

    reading, records = mechanism.reading, _records(mechanism)
    if reading.word not in PLANS:
        return True, "no query is known for its reading"
    names = mechanism.columns or [f"column {k}" for k in range(len(records[0]))]
    column = names if len(names) > 1 or reading.vector else names[0]
    problems = []
    unproven = mechanism.profile.basis is Basis.CONVERGENCE
    with tempfile.TemporaryDirectory() as folder, open_table(frame_of(records, names)) as table:
        watched = _Watched(table)
        place = Path(folder) / "checked.ledger"
        budget = _budget(mechanism.profile)
        given = PureDP(1.0, relation=mechanism.profile.relation) if budget is None else budget
        with Curator(watched, place, given, dataset="checked", time_grid=1e-6) as curator:
            watched.curator = curator
            if budget is None:
                return _never_fits(curator, mechanism, column, watched)
            try:
                curator.check(mechanism, column)
            except InvalidValue:
                return True, "a curator refuses it, uncharged"
            key: dict[str, Any] = {"idempotency_key": "once", "accept_unproven": unproven}
            first, again = (curator.release(mechanism, column, **key) for _ in range(2))
            entries = curator.history()
    if not watched.open or min(watched.open) < 1:
        problems.append("records were read before the release was paid for")
    if len(entries) != 1 or not _same(first, again):
        problems.append("a retry under its key was charged or answered again")
    return verdict(problems, f"charged, then read {len(watched.open)} time(s); a retry is free")


def _never_fits(curator: Any, mechanism: Mechanism, column: Any, watched: _Watched) -> tuple[bool, str]:
    """Say whether a release that no ledger can count is refused before anything is read."""
    try:
        curator.release(mechanism, column)
    except BudgetExceeded:
        problems = ["records were read, and then the release was refused"] if watched.open else []
    else:
        problems = ["a release of infinite cost was paid for"]
    return verdict(problems, "a ledger refuses it: no budget counts a cost like its")


def _audited(mechanism: Mechanism, draws: int, seed: int) -> tuple[bool, str]:
    started = time.process_time()  # not by the clock: a busy machine would make the audit a shorter one
    mechanism.outputs(mechanism.see(mechanism.worst_pair()[0]), seeded_rng(1), _TRIED)
    slow = (time.process_time() - started) * draws > _TRIED * _SECONDS
    report = audit(mechanism, draws=FEWEST if slow else draws, seed=seed)
    result = f"ε ≥ {report.epsilon.lower:.3g} by {report.draws} draws, {report.epsilon.claimed:.3g} claimed"
    return report.verdict is not Verdict.VIOLATED, f"{report.verdict}: {result}"


_PROGRAM = """
import json, sys
from sottovoce.mechanisms.mechanism import Mechanism
print(json.dumps([Mechanism.from_dict(state).to_dict() for state in json.load(sys.stdin)]))
"""


def read_elsewhere(states: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return what mechanisms in public numbers are to a process that has imported nothing yet."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], input=json.dumps(list(states)), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise InvalidValue(f"a fresh process cannot read it: {done.stderr.strip().splitlines()[-1]}")
    result: list[dict[str, object]] = json.loads(done.stdout)
    return result


def _elsewhere(mechanism: Mechanism) -> tuple[bool, str]:
    if not MECHANISMS.lasts(mechanism.word):
        return True, "registered for this process only"
    state = json.loads(json.dumps(mechanism.to_dict()))
    problems = [] if read_elsewhere([state]) == [state] else ["a fresh process reads another mechanism"]
    return verdict(problems, "the same mechanism, by its word alone")
