"""The curator: the one place where data and ledger meet."""

from __future__ import annotations

import contextlib
import functools
import getpass
import math
import os
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, Self, runtime_checkable

import numpy as np

from sottovoce.answers.asking import parse_spend
from sottovoce.answers.notebook import asked_in_words, curator_html
from sottovoce.answers.rows_kept import RowsOfPersons
from sottovoce.answers.verbs import PaidVerbs
from sottovoce.facts import Facts, read_facts
from sottovoce.ledger import Budget, Entry, Ledger, Reservation, State
from sottovoce.ledger.chain import Written, canonical, digest
from sottovoce.ledger.changes import committed, committing
from sottovoce.ledger.charging import Charge
from sottovoce.ledger.grouping import Change
from sottovoce.ledger.opening import is_there
from sottovoce.ledger.store import Store, read_url
from sottovoce.mechanisms import Mechanism, Release, StatisticalQuery
from sottovoce.mechanisms.mechanism import check_draws
from sottovoce.privacy.errors import InvalidData, InvalidValue, SottovoceError, UnprovenPrivacy
from sottovoce.privacy.filter import Order, PrivacyFilter
from sottovoce.privacy.numbers import real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.privacy.randomness import is_secure, secure_rng
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE, check_same
from sottovoce.readings import Looks, Seen

__all__ = ["Answer", "Curator", "Draft", "Paid", "Priced", "Records"]

_LONGEST_PURPOSE = 300
_ROWS = "rows, not persons; say protect='rows' to go on with it, or open one for persons under another name"
_PATIENCE = 30.0
"""Seconds to wait for a ledger's database, as `Ledger` does."""
_SECRET_GRID = 1.0
"""Where n is a secret, answers leave after whole seconds unless said otherwise: reading takes as long as n says."""


@runtime_checkable
class Records(Protocol):
    """What the curator asks of a table; `sottovoce.tables.open_table` returns one."""

    @property
    def schema(self) -> dict[str, str]:
        """The names and types of the columns: public."""

    def count(self) -> int:
        """Return n, the number of records; asked only where it is public. Of persons, ``count(column)`` is asked."""

    def check(self, reading: Any, column: Any = None, *, where: str | None = None, missing: Any = None) -> None:
        """Raise what `read` would raise for this question, without reading a record."""

    def read(self, reading: Any, column: Any = None, *, where: str | None = None, missing: Any = None) -> Seen:
        """Return what a reading makes of the records."""

    def close(self) -> None:
        """Let go of the engine."""


@dataclass(frozen=True)
class Answer:
    """A release with the number of its entry in the ledger."""

    entry: int
    release: Release


@dataclass(frozen=True)
class Priced:
    """A question that makes sense, with its price: nothing is spent, and it can be asked as often as it is paid for."""

    charge: Charge
    make: Callable[[], Release] = field(repr=False)

    def granted(self, by_ledger: Reservation | Entry) -> Paid | Answer:
        """Return what is paid for, or the answer of an entry that was recorded before."""
        if isinstance(by_ledger, Entry):
            return Answer(by_ledger.id, _stored(by_ledger))
        return Paid(by_ledger, self.make)


@dataclass(frozen=True)
class Paid:
    """A question that is paid for and not answered: no record was read for it yet, and `make` will read them."""

    reservation: Reservation
    make: Callable[[], Release] = field(repr=False)


@dataclass(frozen=True)
class Draft:
    """A release that is paid for and made, but not recorded: nobody may see it before `Curator.record` is done."""

    reservation: Reservation
    release: Release


class Curator(PaidVerbs, RowsOfPersons):
    """Releases from one data set, each charged to its budget before any record is read.

    Parameters
    ----------
    data
        What `open_table` opens (a path, an address, a frame), or a table that is open already.
    ledger
        A `Ledger`, or where it is: ``sqlite:///patients.ledger``, ``postgresql+psycopg://...``, a path.
    budget
        What all releases together keep. Opens the budget the first time; later it may be left out, and must be
        the same where it is given.
    dataset
        What the ledger calls the data; its resolved path or address unless given. By whatever name, the data of one
        file or table have one budget in a ledger.
    facts
        What is public of the columns, or the TOML file that says so: what a missing value counts as, the types of a
        CSV file, the bounds and classes of what `fit` fits, whose a row is.
    protect
        ``"persons"``: every promise is about all rows of a person together, n is the number of persons, and a person
        is one record in every answer. The default where the facts name a `Person`. ``"rows"`` must be said: every
        promise is then about a row, not a person.
    types
        For CSV, the types of columns that are not text, where no facts say; see `open_table`.
    n
        ``"private"`` where how many records there are, and so whether anyone is among them, is a secret: the budget is
        then about one record added or removed (`ADD_REMOVE`), and n is counted by noise alone. Otherwise n is public.
        Fixed when the budget is opened.
    order
        The Rényi order at which an ``ApproxDP`` budget is counted, or ``"gaussian"`` to count μ²; fixed when it is
        opened.
    who
        Who asks; the user's name unless given.
    keep_values
        Whether the ledger keeps the releases themselves, or only their hashes.
    anchor
        Where else to note how far the ledger has come, as in `Ledger`; for a ledger that is not open yet.
    time_grid
        Seconds. A release is handed over at the first whole multiple of them after its records began to be read, so
        that how long reading and sampling took within a step tells nothing. None hands it over at once, or after whole
        seconds where n is private; a server paces its answers by itself.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pyarrow as pa
    >>> from sottovoce.mechanisms import DiffusedPosterior
    >>> from sottovoce.privacy.promises import RenyiDP
    >>> from sottovoce.systems import BetaBernoulli
    >>> data = pa.table({"smoker": [True, False, False, True] * 25})
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "patients.ledger"
    >>> target = RenyiDP(order=2, epsilon=0.1)
    >>> mech = DiffusedPosterior.calibrate(BetaBernoulli(6, 12), n=100, target=target)
    >>> with Curator(data, place, RenyiDP(order=2, epsilon=1.0), dataset="patients") as curator:
    ...     release = curator.release(mech, "smoker")
    ...     0 < release.value < 1, len(curator.history()), round(curator.remaining().epsilon, 6)
    (True, 1, 0.9)
    """

    def __init__(
        self,
        data: Any,
        ledger: Ledger | str | os.PathLike[str],
        budget: Promise | None = None,
        *,
        facts: Facts | str | os.PathLike[str] | None = None,
        dataset: str | None = None,
        types: Mapping[str, str] | None = None,
        n: Literal["private"] | None = None,
        order: Order | None = None,
        who: str | None = None,
        keep_values: bool = True,
        anchor: str | os.PathLike[str] | None = None,
        time_grid: float | None = None,
        protect: str | None = None,
    ) -> None:
        self._time_grid = None if time_grid is None else real("time_grid", time_grid, above=0.0)
        self.who = _user() if who is None else who
        self._keep = keep_values
        self._turn = threading.Lock()
        self.facts = facts if facts is None or isinstance(facts, Facts) else read_facts(facts)
        self.person, self.protects_rows_of_persons = _protected(self.facts, protect)
        if self.protects_rows_of_persons and self.facts is not None:
            self.facts = self.facts.of_rows()
        with contextlib.ExitStack() as opened:
            self._table = _open(data, self.facts, types, opened)
            _check_facts(self.facts, self._table.schema)
            self._origin: Any = getattr(self._table, "origin", None)
            name = dataset or getattr(self._origin, "identity", None)
            if not name:
                raise InvalidValue("this data has no name of its own; say dataset=... to name it in the ledger")
            self.dataset = str(name)
            if isinstance(ledger, Ledger):
                if anchor is not None:
                    raise InvalidValue("this ledger is open already; say anchor=... where it is opened")
                self._ledger = ledger
            else:
                if budget is not None and not _hidden(budget, n) and _is_new(ledger):
                    self._public_n  # noqa: B018 - without records no budget is opened, and no ledger left behind
                self._ledger = opened.enter_context(Ledger(ledger, create=budget is not None, anchor=anchor))
            self.budget = self._budget(self._of_whom(budget), n, order, named=dataset is not None)
            if self.budget.n is None and time_grid is None:
                self._time_grid = _SECRET_GRID
            source = self.budget.source
            self._seen = None if source is None or self._origin is None else self._state()
            self._opened = opened.pop_all()

    def _budget(self, promise: Promise | None, said: str | None, order: Order | None, *, named: bool) -> Budget:
        if said not in (None, "private"):
            raise InvalidValue(f"n is counted, or a secret: n='private'. Got {said!r}")
        schema = self._table.schema
        found = self._ledger.find_budget(self.dataset) or self._same_data(named=named)
        hidden = _hidden(promise, said)
        if found is not None and found.n is not None and said is not None:
            raise InvalidValue(f"n of {self.dataset!r} was public when its budget was opened, and no secret since")
        if found is not None and found.n is None:
            hidden = True
        if hidden and promise is not None:
            promise = promise.under(replace(promise.relation, kind=ADD_REMOVE.kind))
        self._hides_n = hidden
        n = None if hidden else self._public_n  # a secret is not even counted
        if found is None:
            if promise is None:
                raise InvalidValue(f"{self.dataset!r} has no budget in {self._ledger.url}; say budget=... to open it")
            facts: dict[str, Any] = {"n": n, "schema": schema, "order": order, "who": self.who}
            return self._ledger.open_budget(self.dataset, promise, **facts, source=self._source())
        self._check_unit(found)
        if promise is not None and promise != found.promise:
            raise InvalidValue(f"the budget of {self.dataset!r} is {found.promise} and never changes. Got {promise}")
        if order is not None and order != found.filter["order"]:
            raise InvalidValue(
                f"the budget of {self.dataset!r} is counted at order {found.filter['order']}. Got {order}"
            )
        if n is not None and n != found.n:
            raise InvalidData(f"{self.dataset!r} had {found.n} {self._units} when its budget was opened. Got {n}")
        if schema != dict(found.schema):
            raise InvalidData(
                f"{self.dataset!r} had the columns {dict(found.schema)} when its budget was opened. Got {schema}"
            )
        if found.source is not None and self._origin is not None:
            self._check_source(found.source)
        return found

    def _check_unit(self, found: Budget) -> None:
        if found.relation.unit != self._unit:
            raise InvalidValue(
                f"the budget of {self.dataset!r} was opened for "
                + ("persons; name the Person in the facts, and leave protect= out" if self.person is None else _ROWS)
            )

    @property
    def whom(self) -> str | None:
        """Who is protected, where the facts say whose a row is: a sentence for whoever reads an answer."""
        if self.protects_rows_of_persons:
            return "Protected is a row, not a person"
        return None if self.person is None else "Protected is a person, with all rows of theirs"

    @property
    def _unit(self) -> str:
        """What a record is: of a person, all that is there of one."""
        return "record" if self.person is None else "person"

    @property
    def _units(self) -> str:
        return f"{self._unit}s"

    @functools.cached_property
    def _public_n(self) -> int:
        table: Any = self._table
        n = int(table.count() if self.person is None else table.count(self.person))
        if n == 0:
            raise InvalidData(f"{self.dataset!r} has no {self._units}")
        return n

    def _whose(self) -> dict[str, Any]:
        """Return what a table is told of persons, if anything."""
        return {} if self.person is None else {"persons": self.facts}

    def _of_whom(self, promise: Promise | None) -> Promise | None:
        """Return a promise as it is meant here: of a person, where persons are protected."""
        if promise is None or self.person is None:
            return promise
        return promise.under(replace(promise.relation, unit="person"))

    def claimed(self, profile: Profile) -> Profile:
        """Return what a mechanism's claim about its records says here: where persons are protected, of a person.

        A mechanism is then shown one record a person, the average of theirs or one row; see `Table.read`.
        """
        return profile.shown_to(self.budget.relation)

    def _same_data(self, *, named: bool) -> Budget | None:
        """Return the budget that this data has under another name, or refuse a second one."""
        if self._origin is None:
            return None
        for other in self._ledger.budgets():
            if other.dataset == self.dataset:  # another process opened it a moment ago
                return other
            if other.source is None:
                # Budgets once went by the bare name of a file; a path of that name may be the same data.
                if named or other.whole is not None or other.dataset != Path(self._origin.identity).name:
                    continue
                raise InvalidValue(
                    f"the ledger has a budget for {other.dataset!r}, which may be the same data; say "
                    f"dataset={other.dataset!r} to go on with it, or dataset=... to give this data a name of its own"
                )
            if not named and other.source["identity"] == self._origin.identity:
                self.dataset = other.dataset
                return other
            if self._origin.shares(other.source["parts"]):
                raise InvalidValue(
                    f"{self._origin.identity} shares records with {other.dataset!r}, which has a budget in this "
                    "ledger; a second one would let out more than either says"
                )
        return None

    def _source(self) -> dict[str, Any] | None:
        """Return where the data lie and their fingerprint, salted: the size of a file tells of its records."""
        if self._origin is None:
            return None
        salt = secrets.token_hex(16)
        print_ = self._print(salt, self._state())
        return {"identity": self._origin.identity, "parts": list(self._origin.parts), "salt": salt, "print": print_}

    def _state(self) -> dict[str, Any]:
        """Return what tells whether the data was written again, without a look at the records."""
        known: dict[str, Any] = self._origin.fingerprint()
        if self._hides_n:  # who reads the ledger knows the salt, and could try size after size
            known.pop("size", None)
        return known

    def _print(self, salt: str, state: Mapping[str, Any] | None) -> str:
        return digest(canonical([salt, self._table.schema, state]))

    def _check_source(self, known: Mapping[str, Any]) -> None:
        """Refuse other data under the name of a budget; warn where the same data moved or was written again."""
        moved = known["identity"] != self._origin.identity
        changed = known["print"] != self._print(known["salt"], self._state())
        if moved and (changed or not self._origin.fingerprint()):  # of a database, the address is all that is known
            raise InvalidData(
                f"the budget of {self.dataset!r} was opened for {known['identity']}. Got {self._origin.identity}; "
                "other data have a budget of their own, under another name"
            )
        if moved or changed:
            what = "lies in another place" if moved else "was written again"
            warnings.warn(
                f"{self.dataset!r} {what} since its budget was opened; its records must still be of the same people",
                stacklevel=4,
            )

    def _data(self) -> str | None:
        """Return what an entry notes of the data as they are now; refuse data written again under an open table."""
        source = self.budget.source
        if self._origin is None or source is None:
            return None
        self._check_unchanged()
        return digest(canonical([self._origin.identity, self._print(source["salt"], self._seen)]))

    def _check_unchanged(self) -> None:
        if self._seen is not None and self._state() != self._seen:
            raise InvalidData(f"{self.dataset!r} was written again since it was opened; open it again")

    def release(
        self,
        mechanism: Mechanism,
        column: str | Sequence[str] | None = None,
        *,
        where: str | None = None,
        missing: Any = None,
        draws: int = 1,
        rng: np.random.Generator | None = None,
        idempotency_key: str | None = None,
        accept_unproven: bool = False,
        purpose: str | None = None,
    ) -> Release:
        """Release what a mechanism says of a column: reserve, read, record, and only then answer.

        Parameters
        ----------
        mechanism
            Built for this table's n (None where that is private), of a system that reads this kind of column.
        column, where, missing
            What to read, as in `Table.read`: n counts every record, whether `where` holds for it or not.
        draws
            How many samples; each costs as much as the first.
        rng
            Secure randomness by default; a seeded generator is refused.
        idempotency_key
            A name for this very request. A retry under the same key returns the stored release and is
            charged once.
        accept_unproven
            Release even if the profile holds only when a Markov chain has converged; the ledger marks it.
        purpose
            What the answer is for, in a sentence; recorded with the question, and on the data set's privacy card.

        Raises
        ------
        BudgetExceeded
            If the budget does not cover it. Nothing was spent, and no record was read.
        """
        options: dict[str, Any] = {"where": where, "missing": missing, "draws": draws, "rng": rng}
        options |= {"idempotency_key": idempotency_key, "accept_unproven": accept_unproven, "purpose": purpose}
        made = self.draft(mechanism, column, **options)
        return (self.record(made) if isinstance(made, Draft) else made).release

    def draft(self, mechanism: Mechanism, column: str | Sequence[str] | None = None, **options: Any) -> Draft | Answer:
        """Reserve and make a release, on behalf of one of several people; `record` it before anyone sees it.

        Returns the answer at once where the request was answered before under its key. The options are those of
        `reserve`.
        """
        paid = self.reserve(mechanism, column, **options)
        if isinstance(paid, Answer):
            return paid
        with self._closing(paid.reservation):
            return self.make(paid)

    def reserve(
        self,
        mechanism: Mechanism,
        column: str | Sequence[str] | None = None,
        *,
        idempotency_key: str | None = None,
        who: str | None = None,
        **question: Any,
    ) -> Paid | Answer:
        """Pay for a release, the first half of `draft`: it reads no record, and how long it takes depends on none.

        Follow it with `make` and `record`, or with `give_up`. The parameters are those of `release`, and:

        Parameters
        ----------
        part
            The budget to charge: a part of the data set's, which is then charged too; see `open_part`.
        about
            More of the question, in plain values, to be recorded with it.
        then
            What is done to the release before it is recorded and answered, a function of the release alone:
            post-processing, free of cost. Only its outcome is kept.
        who
            Who asks; the curator's own `who` unless given.
        """
        priced = self.price(mechanism, column, **question)
        asked = priced.charge
        options: dict[str, Any] = {"who": self.who if who is None else who, "key": idempotency_key}
        options["accept_unproven"] = bool(question.get("accept_unproven"))
        return priced.granted(self._ledger.reserve(asked.budget, asked.profile, asked.request, **options))

    def price(
        self,
        mechanism: Mechanism,
        column: str | Sequence[str] | None = None,
        *,
        where: str | None = None,
        missing: Any = None,
        draws: int = 1,
        rng: np.random.Generator | None = None,
        accept_unproven: bool = False,
        purpose: str | None = None,
        part: Budget | None = None,
        about: Mapping[str, Any] | None = None,
        then: Callable[[Release], Release] | None = None,
    ) -> Priced:
        """Return a question with its price, or raise what is wrong with it. Reads no record and spends nothing."""
        column = mechanism.columns if column is None and isinstance(mechanism, Mechanism) else column
        missing = self._missing(column) if missing is None and column != self.person else missing
        self.check(mechanism, column, where=where, missing=missing, rng=rng)
        budget = self.budget if part is None else self._part(part)
        draws, told = check_draws(draws), _told(about)
        if then is not None and not callable(then):
            raise InvalidValue(f"then= is a function of the release. Got a {type(then).__name__}")
        question = {"column": _plain(column), "where": where, "missing": missing, "draws": draws}
        question |= _purpose(purpose)
        if (data := self._data()) is not None:  # a key then answers for this data alone
            question["data"] = data
        cost = self.claimed(mechanism.cost(draws))
        asked = told | {"mechanism": mechanism.to_dict()} | question  # nobody talks over what is asked
        charge = self._ledger.charge(budget, cost, asked, accept_unproven=accept_unproven)

        def make() -> Release:
            looks = _TableLooks(self, column, {"where": where, "missing": missing})
            with _on_the_grid(self._time_grid):
                release = mechanism.release(
                    looks, secure_rng() if rng is None else rng, draws=draws, accept_unproven=accept_unproven
                )
            if release.reproducible:
                raise UnprovenPrivacy("the mechanism used seeded randomness; its release is not let out")
            release = replace(release, profile=cost)
            return release if then is None else then(release)

        return Priced(charge, make)

    def reserving(self, priced: Priced, *, key: str | None = None, who: str | None = None) -> Change:
        """Return the change that `reserve` makes, for `Ledger.write`, which returns what is paid or was told before."""
        self._check_unchanged()
        reserve = self._ledger.reserving(priced.charge, who=self.who if who is None else who, key=key)
        return lambda transaction: priced.granted(reserve(transaction))

    def fit(
        self,
        estimator: Any,
        features: Sequence[str],
        label: str | None = None,
        *,
        spend: Promise | float | str | None = None,
        part: Budget | None = None,
        **options: Any,
    ) -> Any:
        """Fit an estimator to the table: one release of its mechanism, charged as every other is.

        Parameters
        ----------
        estimator
            What has ``mechanism_for(n, promise, facts=, features=, label=)`` and ``keep(release)``, as every estimator
            of `sottovoce.estimators` has. Bounds and classes that it was not given come from the facts.
        features, label
            The columns.
        spend
            The promise, or a share of the budget (or of the part); left out, the estimator's own promise.
        part
            The budget to charge: a part of the data set's.
        options
            As in `release`: ``where``, ``missing``, ``rng``, ``idempotency_key``, ``accept_unproven``.
        """
        if not (hasattr(estimator, "mechanism_for") and hasattr(estimator, "keep")):
            raise InvalidValue(f"a curator fits estimators of sottovoce. Got a {type(estimator).__name__}")
        if self.budget.n is None:
            raise InvalidValue(
                "an estimator must know how many records there are, and here that is a secret; ask for a regression by "
                "formula, which need not: curator.regress(...)"
            )
        names = [features] if isinstance(features, str) else list(features)
        promise = self.promise(spend, part)
        if promise is not None:  # it is shown one record a person, and speaks of records
            promise = promise.under(replace(promise.relation, unit="record"))
        mechanism = estimator.mechanism_for(self.budget.n, promise, facts=self.facts, features=names, label=label)
        columns = mechanism.columns or [*names, *([] if label is None else [label])]
        columns = columns[0] if len(columns) == 1 else columns
        made = self.draft(mechanism, columns, part=part, **options)
        return estimator.keep((self.record(made) if isinstance(made, Draft) else made).release)

    def promise(self, spend: Promise | float | str | None, part: Budget | None = None) -> Promise | None:
        """Return the promise that goes with a share (``0.05``, ``"5%"``) of the budget, or of a part, as it was opened.

        A promise, or its text, stays what it is; where it names no relation, it is about the budget's neighbours.
        """
        if isinstance(spend, str):
            read = parse_spend(spend)
            spend = parse_promise(read) if isinstance(read, str) else read
        budget = self.budget if part is None else self._part(part)
        if spend is None:
            return None
        if isinstance(spend, Promise):
            meant = spend
            if spend.relation == REPLACE_ONE:
                meant = spend.under(budget.relation)
            elif self.person is not None:
                meant = spend.under(replace(spend.relation, unit="person"))
            check_same(meant.relation, budget.relation, "a budget or a part of it pays for claims about its neighbours")
            return meant
        return PrivacyFilter.from_dict(budget.filter).share(spend)

    def _missing(self, column: str | Sequence[str] | None) -> Any:
        """Return what the facts say that a missing value of a column counts as."""
        named = self.facts is not None and isinstance(column, str) and column in self.facts
        value = getattr(self.facts[column], "missing", None) if named else None  # type: ignore[index]
        return int(value) if isinstance(value, bool) else value

    def make(self, paid: Paid) -> Draft:
        """Read the records and make a release that was paid for; whoever calls this sees to `give_up` if it fails."""
        paid.reservation.touch()
        return Draft(paid.reservation, paid.make())

    def record(self, draft: Draft) -> Answer:
        """Record a release, durably; from here on it may be seen."""
        with self._closing(draft.reservation):
            self._ledger.commit(draft.reservation, draft.release.to_dict(), keep=self._keep)
        return Answer(draft.reservation.entry, draft.release)

    def recording(self, draft: Draft) -> Change:
        """Return the change that `record` makes, for `Ledger.write`, which returns the entry as it is recorded."""
        value = draft.release.text
        commit = committing(draft.reservation, Written(value), keep=self._keep)
        return lambda transaction: committed(draft.reservation, commit(transaction), value)

    def open_part(self, name: str, promise: Promise | float | str, *, order: Order | None = None) -> Budget:
        """Open a part of the data set's budget for one person, or return it where it is open already.

        What the part is charged, the whole is charged in the same transaction: parts may add up to more than
        the whole, and their holders together still never exceed it.

        Parameters
        ----------
        name
            Whose part it is.
        promise
            A share of the whole (``0.25``, ``"25%"``), counted as the whole is and so in proportion to it: what costs
            10 % of a quarter costs 2.5 % of the whole. Or a promise of its own, such as ``ApproxDP(0.5, 1e-6)``, which
            this person's answers together then keep, counted at the order that suits *it*. Strengths of such promises
            are not in proportion: half the ε is about a quarter of the answers.
        order
            The Rényi order for a promise of its own, or ``"gaussian"``; the best one unless given.
        """
        if not isinstance(name, str) or not name.strip():
            raise InvalidValue("a part is named after whoever holds it; the name must not be empty")
        promise = self.share(promise)
        found = self._ledger.find_budget(f"{self.dataset}/{name}")
        if found is not None and order is None and (found.promise, found.whole) == (promise, self.budget.id):
            return found  # parts were once counted at the order of the whole
        facts: dict[str, Any] = {"n": self.budget.n, "schema": self.budget.schema, "order": order, "who": self.who}
        return self._ledger.open_budget(f"{self.dataset}/{name}", promise, whole=self.budget, **facts)

    def _part(self, part: Budget) -> Budget:
        if not isinstance(part, Budget):
            raise InvalidValue(f"a part is what open_part returns. Got a {type(part).__name__}")
        if part.whole != self.budget.id:
            raise InvalidValue(f"{part.dataset!r} is no part of the budget of {self.dataset!r}")
        return part

    def check(
        self,
        mechanism: Mechanism,
        column: str | Sequence[str] | None = None,
        *,
        where: str | None = None,
        missing: Any = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        """Raise what `release` would raise of a question that makes no sense: nothing is read, nothing spent."""
        self._check(mechanism, rng)
        self._table.check(mechanism, column, where=where, missing=missing, **self._whose())

    def _check(self, mechanism: Mechanism, rng: np.random.Generator | None) -> None:
        if rng is not None and not is_secure(rng):
            raise InvalidValue("a release takes secure randomness; leave rng out, or give secure_rng()")
        if not isinstance(mechanism, Mechanism):
            raise InvalidValue(f"a curator releases what a mechanism says. Got a {type(mechanism).__name__}")
        if isinstance(mechanism, StatisticalQuery) and mechanism.predicate is not None:
            raise InvalidValue(
                "a table answers no Python predicate; leave it out, and name a column of numbers from 0 to 1 or a "
                "condition (where=...)"
            )
        if mechanism.n != self.budget.n:
            many = self._units
            has = f"keeps its number of {many} a secret" if self.budget.n is None else f"has {self.budget.n} {many}"
            raise InvalidValue(
                f"the mechanism is for n={mechanism.n} and {self.dataset!r} {has}; calibrate it for n={self.budget.n}"
            )

    @contextlib.contextmanager
    def _closing(self, granted: Reservation) -> Iterator[None]:
        """Close the entry of a release that fails: for nothing if no data was read, else as lost and spent."""
        try:
            yield
        except BaseException as error:
            self.give_up(granted, error)
            raise

    def give_up(self, granted: Reservation, error: BaseException) -> None:
        """Close the entry of a release that failed, as `_closing` does."""
        # If the ledger itself is what failed, the entry stays pending, which counts as spent too.
        with contextlib.suppress(SottovoceError):
            if granted.touched:
                self._ledger.recover(granted.entry, note=f"failed: {type(error).__name__}", who=self.who)
            else:
                self._ledger.void(granted, f"given up before reading: {type(error).__name__}")

    def remaining(self, part: Budget | None = None) -> Promise:
        """Return what is left of the budget, or of a part of it."""
        return self._ledger.remaining(self.budget if part is None else self._part(part))

    def history(self) -> list[Entry]:
        """Return every entry charged to the budget or a part of it, oldest first, verified."""
        return self._ledger.entries(self.dataset)

    def pending(self) -> list[Entry]:
        """Return what was reserved and has not ended: under way now, or left by a process that died."""
        return self._ledger.pending(self.dataset)

    def __repr__(self) -> str:
        n = "private" if self.budget.n is None else f"{self.budget.n:,}"
        rows = ", of a row, not a person" if self.protects_rows_of_persons else ""
        return f"Curator({self.dataset!r}, n={n}, budget {self.budget.promise}{rows})"

    def _repr_html_(self) -> str:
        n = "a secret" if self.budget.n is None else f"{self.budget.n:,}"
        facts = [(self._units, n), ("budget", str(self.budget.promise))]
        if self.facts is not None:
            facts.append(("columns", ", ".join(f"{name} ({column.word})" for name, column in self.facts.items())))
        try:
            entries = [entry for entry in self.history() if entry.state is not State.VOID]
            share, left = 1 - float(self._ledger.spent(self.budget)) / self.budget.limit, self.left()
        except (SottovoceError, ArithmeticError) as error:  # a curator that was closed still shows what it was
            return curator_html(self.dataset, [*facts, ("ledger", str(error))], "", 0.0, [])
        asked = [
            (
                asked_in_words(entry.request),
                f"{100 * self.budget.share(entry.whole_cost or entry.cost):.3g} % of the budget",
            )
            for entry in reversed(entries[-5:])
        ]
        return curator_html(self.dataset, facts, left, share, asked)

    def close(self) -> None:
        """Let go of what the curator opened."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class _TableLooks(Looks):
    """The records of a curator's table, one question's columns and condition."""

    curator: Curator
    column: str | Sequence[str] | None
    asked: Mapping[str, Any]

    def look(self, reading: Any) -> Seen:
        """Return what a reading makes of the table, of the n that its budget was opened for where that is public."""
        curator = self.curator
        with curator._turn:
            seen = curator._table.read(reading, self.column, **self.asked, **curator._whose())
        if curator.budget.n is not None and seen.n != curator.budget.n:
            raise InvalidData(
                f"{curator.dataset!r} had {curator.budget.n} {curator._units} when its budget was opened; it changed"
            )
        return seen


def _protected(facts: Facts | None, protect: str | None) -> tuple[str | None, bool]:
    """Return the column of persons where persons are protected, and whether rows of persons are instead."""
    if protect not in (None, "persons", "rows"):
        raise InvalidValue(f"protect= is 'persons' or 'rows'. Got {protect!r}")
    person = None if facts is None else facts.person
    if protect == "persons" and person is None:
        raise InvalidValue("protect='persons' needs facts that say whose a row is: Facts(..., patient=Person())")
    return (None, person is not None) if protect == "rows" else (person, False)


def _is_new(ledger: str | os.PathLike[str]) -> bool:
    with contextlib.closing(Store(read_url(ledger), _PATIENCE)) as store:
        return not is_there(store)


def _hidden(promise: Promise | None, said: str | None) -> bool:
    return said is not None or (promise is not None and promise.relation.hides_n)


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user may have no name
        return f"user {os.getuid()}" if hasattr(os, "getuid") else ""


def _open(data: Any, facts: Facts | None, types: Mapping[str, str] | None, opened: contextlib.ExitStack) -> Records:
    """Open the data. What came open is left open."""
    if isinstance(data, Records):
        if types:
            raise InvalidValue("types= is for data that is not open yet; give it to open_table")
        return data
    from sottovoce.tables import open_table  # noqa: PLC0415 - an extra

    return opened.enter_context(open_table(data, types=types, facts=facts))


def _check_facts(facts: Facts | None, schema: Mapping[str, str]) -> None:
    if facts is not None and (unknown := [name for name in facts.types if name not in schema]):
        raise InvalidValue(
            f"the facts name columns that are not there: {', '.join(unknown)}; there are {', '.join(schema)}"
        )


def _told(about: Any) -> dict[str, Any]:
    """Return more of a question, if it can be written down."""
    try:
        told: dict[str, Any] | None = dict(about or {})
        canonical(told)
    except (TypeError, ValueError, RecursionError):
        told = None
    if told is None or not all(isinstance(name, str) for name in told):
        raise InvalidValue(f"about= is a mapping from texts to plain values. Got a {type(about).__name__}")
    return told


def _purpose(given: str | None) -> dict[str, str]:
    """Return what an entry notes of the purpose of a question: nothing, where nobody stated one."""
    if given is None or given == "":
        return {}
    if not isinstance(given, str) or len(given) > _LONGEST_PURPOSE or not given.isprintable():
        raise InvalidValue(f"a purpose is one line of text, of at most {_LONGEST_PURPOSE} characters")
    return {"purpose": given}


def _plain(column: str | Sequence[str] | None) -> str | list[str] | None:
    return column if column is None or isinstance(column, str) else list(column)


def _stored(entry: Entry) -> Release:
    if entry.release is None:
        raise InvalidValue(f"entry {entry.id} answered this request, and the ledger kept only its hash")
    return Release.from_json(entry.release)


@contextlib.contextmanager
def _on_the_grid(step: float | None) -> Iterator[None]:
    """Leave at the first whole multiple of `step` seconds, at least one, whether what is inside succeeds or fails."""
    start = time.monotonic()
    try:
        yield
    finally:
        if step is not None:
            taken = time.monotonic() - start
            time.sleep(max(1, math.ceil(taken / step)) * step - taken)
