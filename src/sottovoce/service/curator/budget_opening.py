"""Which budget some data have: the one they had before, or one that is opened now."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sottovoce.mechanisms.expected_error import loose_delta
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.filter import Order, PrivacyFilter
from sottovoce.privacy.promises import ApproxDP, Promise
from sottovoce.privacy.relation import ADD_REMOVE
from sottovoce.records.facts import Facts
from sottovoce.records.facts.bands import split_group
from sottovoce.records.facts.periods import Periods, parse_periods
from sottovoce.service.answers.explanations import is_weak
from sottovoce.service.curator.data_source import DataSource, copied_budgets, origin_of, other_budgets, same_data
from sottovoce.service.curator.privacy_unit import Protected
from sottovoce.service.curator.readable_records import Records, check_columns
from sottovoce.service.ledger import Budget, DataVersion, Division, Ledger
from sottovoce.service.ledger.opening import is_there
from sottovoce.service.ledger.store import Store, read_url

__all__ = ["check_pays", "has_budget", "hides_n", "is_new", "open_budget"]

_log = logging.getLogger(__name__)
_PATIENCE = 30.0
"""Seconds to wait for a ledger's database, as `Ledger` does."""


def open_budget(
    ledger: Ledger,
    dataset: str,
    table: Records,
    protected: Protected,
    *,
    count: Callable[[], int],
    promise: Promise | None,
    said: str | None,
    order: Order | None,
    who: str,
    named: bool,
    grows: bool | None,
    period: str | None,
) -> tuple[Budget, DataSource, DataVersion | None]:
    """Return the budget of some data, opened now where there is none, where they lie, and their version if they grow.

    Parameters
    ----------
    ledger, dataset
        Where the budget is kept, and under which name unless the data have one under another.
    table, protected, count
        The data, who is protected, and how many they are: asked only where that is public.
    promise, said, order
        What the curator was told of the budget: `said` of n, that it is ``"private"``.
    who, named
        Who asks, and whether the name was theirs.
    grows
        True where the data are declared to grow from now on; None to go on as it was declared.
    period
        What says the period of a record, where there is one: checked before a budget is opened.
    """
    secret = hides_n(promise, said)
    promise = None if promise is None else protected.meant(promise)
    result = _budget_of(ledger, dataset, table, named=named)
    dataset = dataset if result is None else result.dataset
    if result is not None and result.n is not None and said is not None:
        raise InvalidValue(f"n of {dataset!r} was public when its budget was opened, and no secret since")
    hidden = secret or (result is not None and result.n is None)
    if hidden and promise is not None:
        promise = promise.under(replace(promise.relation, kind=ADD_REMOVE.kind))
    if period is not None:
        check_period(period, protected.facts, table.schema, hidden=hidden)
    n = None if hidden else count()  # a secret is not even counted
    source = DataSource(origin_of(table), table.schema, is_frame=getattr(table, "is_frame", False))
    if result is None:
        if promise is None:
            raise InvalidValue(f"{dataset!r} has no budget in {ledger.url}; {_what_to_say(ledger, source.schema)}")
        check_columns(table, protected.facts)
        check_pays(promise, order)
        public: dict[str, Any] = {"n": n, "schema": source.schema, "order": order, "who": who}
        result = ledger.open_budget(dataset, promise, **public, source=source.noted())
        _beware(promise, n)
        if others := other_budgets(source.origin, ledger.path):
            _tell_of(tuple(others), dataset)
    else:
        protected.check(result)
        before = ledger.version(result)
        growing = _grows(dataset, before, grows)
        if not growing:  # of data that grow columns may be gone
            check_columns(table, protected.facts)
        _check_same(result, promise, order, n, source, protected, growing=growing)
        if growing and before is not None:
            tell_of_types(dataset, before.schema, source)
        replace(source, schema=result.schema).check(
            dataset, result.source, growing=growing
        )  # types that we gave are none of the file's
        if copies := copied_budgets(source.origin, result, ledger.path):
            _tell_of_copies(tuple(copies), dataset)
    known = result.source is not None and source.origin is not None
    source = replace(source, seen=source.state()) if known else source
    version, last = None, ledger.version(result)
    if grows or last is not None:
        version = ledger.grow(result, n=n, schema=source.schema, who=who)
        tell_of_erased(dataset, last, version)
    return result, source, version


def tell_of_erased(dataset: str, before: DataVersion | None, now: DataVersion) -> None:
    """Say once, as a version with fewer records is noted, which answers know of those that went."""
    if before is not None and before.n is not None and now.n is not None and now.n < before.n:
        _log.warning(
            "%r has %s fewer than in its version before (%s, now %s): answers from here on know nothing of what was "
            "erased; those that were given stay as they are",
            *(dataset, f"{before.n - now.n:,}", f"{before.n:,}", f"{now.n:,}"),
        )


def check_period(text: str, facts: Facts | None, schema: Mapping[str, str], *, hidden: bool) -> None:
    """Refuse what names no periods of some data; how many records each has is public."""
    if facts is None:
        raise InvalidValue("periods are told by public facts of a column: Curator(data, facts=..., period=...)")
    if hidden:
        raise InvalidValue("periods need a public n: where it is a secret, every answer tells of all records")
    parse_periods(text, facts).check_type(schema)


def divided(
    ledger: Ledger, budget: Budget, schema: Mapping[str, str], facts: Facts | None, period: str | None, who: str
) -> tuple[Division | None, Periods | None]:
    """Return the periods of a budget as the ledger names them, and as a condition is read by them.

    They are named where `period` says so, and more of them where the facts name more. Without facts of the column every
    question is charged to all.
    """
    before = ledger.division(budget)
    if period is None and (before is None or facts is None or not _knows(facts, before.by)):
        return before, None
    if before is not None and period is not None and parse_periods(period, facts).by != before.by:  # type: ignore[arg-type]
        raise InvalidValue(f"the periods of {budget.dataset!r} were named by {before.by!r}, for good. Got {period!r}")
    known = () if before is None else before.names
    periods = parse_periods(period or before.by, facts, known)  # type: ignore[union-attr, arg-type]
    periods.check_type(schema)
    home = facts.persons is not None and facts.persons.home  # type: ignore[union-attr]
    return ledger.divide(budget, periods.by, periods.names, who=who, home=home), periods


def _knows(facts: Facts, by: str) -> bool:
    try:
        split_group(by, facts)
    except InvalidValue:
        return False
    return True


def _grows(dataset: str, before: DataVersion | None, said: bool | None) -> bool:
    """Say whether data grow, as was declared before or is declared now; what grows once grows for good."""
    if said not in (None, True, False):
        raise InvalidValue(f"grows= is True where the data gain records while the budget goes on. Got {said!r}")
    if said is False and before is not None:
        raise InvalidValue(f"{dataset!r} was declared to grow, for good; leave grows= out")
    return bool(said) or before is not None


def tell_of_types(dataset: str, before: Mapping[str, str], source: DataSource) -> None:
    """Say which columns have another type than in the version before, or are gone."""
    if source.is_frame:
        return  # a type follows from the records there
    there = source.schema
    changed = [
        f"{name} ({before[name]}, now {there.get(name, 'gone')})" for name in before if before[name] != there.get(name)
    ]
    if changed and not source.types_are_given:
        _log.warning("columns of %r changed since its last version: %s", dataset, ", ".join(sorted(changed)))


@functools.lru_cache(maxsize=256)  # said once: a loop that opens a thousand budgets need not say it a thousand times
def _beware(promise: Promise, n: int | None) -> None:
    if is_weak(promise):
        _log.warning("a budget of %s is next to no protection, and for good; sottovoce explain says why", promise)
    elif n and isinstance(promise, ApproxDP) and promise.delta > 1 / n:
        _log.warning("a budget of %s is for good, and %s", promise, loose_delta(promise.delta, n))


@functools.lru_cache(maxsize=256)
def _tell_of(others: tuple[str, ...], dataset: str) -> None:
    have = "has a budget" if len(others) == 1 else "have budgets"
    _log.warning(
        "%s %s for the data of %r: together they let out more than each says", ", ".join(others), have, dataset
    )


@functools.lru_cache(maxsize=256)
def _tell_of_copies(copies: tuple[str, ...], dataset: str) -> None:
    have = "has a copy" if len(copies) == 1 else "have copies"
    _log.warning(
        "%s %s of the budget of %r: what one of them answers, the other does not count",
        ", ".join(copies),
        have,
        dataset,
    )


def check_pays(promise: Promise, order: Order | None = None) -> None:
    """Refuse a budget that pays for nothing, which would be opened for good."""
    if not PrivacyFilter(promise, order).limit:
        raise InvalidValue(f"a budget of {promise} pays for no answer, and would never change; name a larger one")


def _what_to_say(ledger: Ledger, schema: Mapping[str, str]) -> str:
    """Say how to open a budget, and how not to: data that were moved have one already, and a second would add to it."""
    opening = "name a budget (--budget, budget=) to open it"
    alike = [budget.dataset for budget in ledger.budgets() if budget.whole is None and dict(budget.schema) == schema]
    if not alike:
        return opening
    return f"where these are the data of {alike[0]!r}, moved, give them that name (--dataset, dataset=); else {opening}"


def _check_same(
    found: Budget,
    promise: Promise | None,
    order: Order | None,
    n: int | None,
    source: DataSource,
    protected: Protected,
    *,
    growing: bool,
) -> None:
    """Refuse to go on with a budget as if it were another."""
    opened, schema = f"{found.dataset!r} had {{}} when its budget was opened. Got {{}}", dict(found.schema)
    if promise is not None and promise != found.promise:
        never = f"{found.promise} and never changes; leave it out to go on"
        raise InvalidValue(f"the budget of {found.dataset!r} is {never}. Got {promise}")
    if order is not None and order != found.filter["order"]:
        raise InvalidValue(f"the budget of {found.dataset!r} is counted at order {found.filter['order']}. Got {order}")
    if growing:  # what grows has another n each time, and other columns
        return
    if n is not None and n != found.n:
        raise InvalidData(
            f"{opened.format(f'{found.n} {protected.units}', n)}; say grows=True (--grows) where it is this data that "
            "gained records; other data have a budget of their own"
        )
    changed = sorted(name for name in {*schema, *source.schema} if schema.get(name) != source.schema.get(name))
    if source.types_are_given:  # which columns there are stays, and how the one of persons is read
        there = (schema.keys() & source.schema.keys()) - {protected.person}
        changed = [name for name in changed if name not in there]
    if source.is_frame:  # one record may change a type, and none may change whether a budget goes on
        changed = sorted(schema.keys() ^ source.schema.keys())
    if changed and not any(name in schema for name in changed):
        _log.warning(
            "%r has columns that are new since its budget was opened: %s; each must be a function of its record alone",
            *(found.dataset, ", ".join(changed)),
        )
    elif changed:
        then, now = (
            ", ".join(f"{name}: {columns.get(name, 'none')}" for name in changed) for columns in (schema, source.schema)
        )
        raise InvalidData(
            f"{opened.format(f'the columns {then}', now)}; a budget goes on with the columns it had, and with more, "
            "unless its data grow (grows=True, --grows)"
        )


def hides_n(promise: Promise | None, said: str | None) -> bool:
    """Say whether how many records there are is asked to be a secret."""
    if said not in (None, "private"):
        raise InvalidValue(f"n is counted, or a secret: n='private'. Got {said!r}")
    if promise is not None and not isinstance(promise, Promise):
        raise InvalidValue(f"a budget is a promise, such as sv.ApproxDP(1, 1e-6). Got {promise!r}")
    return said is not None or (promise is not None and promise.relation.hides_n)


def has_budget(ledger: str | os.PathLike[str], dataset: str | None, table: Records) -> bool:
    """Say whether some data have a budget in a ledger that may not be there yet, under a name that they are given."""
    name = dataset or getattr(origin_of(table), "identity", None)
    if name is None or is_new(ledger):
        return False
    with Ledger(ledger) as there:
        return _budget_of(there, str(name), table, named=dataset is not None) is not None


def _budget_of(ledger: Ledger, dataset: str, table: Records, *, named: bool) -> Budget | None:
    return ledger.find_budget(dataset) or same_data(ledger, dataset, origin_of(table), named=named)


def is_new(ledger: str | os.PathLike[str]) -> bool:
    """Say whether there is no ledger there yet."""
    with contextlib.closing(Store(read_url(ledger), _PATIENCE)) as store:
        return not is_there(store)
