"""What the administrator decides: data sets, bounds, budgets, analysts, limits; a TOML file read into values."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from sottovoce.faces.server.oidc_config import Oidc, oidc_config
from sottovoce.faces.server.sections import Section
from sottovoce.mechanisms.conjugate.named_systems import column_systems
from sottovoce.mechanisms.mechanism import MECHANISMS
from sottovoce.mechanisms.mechanism_choice import CONJUGATE, known_names, names_for
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import GAUSSIAN, Order
from sottovoce.privacy.json_values import toml_file
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.privacy.relation import ADD_REMOVE
from sottovoce.privacy.shares import read_share
from sottovoce.records.facts import Category, Column, Derived, Facts, Person, read_facts
from sottovoce.service.curator.budget_opening import check_pays

_MOST_CATEGORIES = 64
_FEW = {4: 2**16, 6: 2**64}
"""The most addresses that a private network of proxies may have: a container's bridge has as many."""


@dataclass(frozen=True)
class ColumnConfig:
    """What may be asked of a column, and what is public of it.

    Attributes
    ----------
    name
        What analysts call it: a column of the table, or a name for the several columns of a vector.
    fact
        Its kind and bounds.
    systems
        The systems it may be read with.
    """

    name: str
    fact: Column
    systems: tuple[str, ...]
    title: str = ""
    derived: Derived | None = None
    """How it is made of others, where the table does not have it."""

    @property
    def said(self) -> Column:
        """The column as the configuration says it."""
        return self.fact if self.derived is None else self.derived


@dataclass(frozen=True)
class DatasetConfig:
    """A data set: where it is, what all analysts together may learn, what may be asked.

    `types` are those of a CSV file's columns, as for `open_table`.
    """

    name: str
    source: str
    budget: Promise
    columns: Mapping[str, ColumnConfig]
    n: Literal["private"] | None = None
    """``"private"`` where the number of records is a secret."""
    protect: Literal["persons", "rows"] | None = None
    """Who is protected: persons where a column says whose a row is, unless ``"rows"`` is said."""
    grows: bool = False
    """Whether the data gain, lose and correct records while their budget goes on."""
    period: str | None = None
    """What says the period of a record, where each has a budget of its own, such as ``admitted: monthly``."""
    order: Order | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    description: str = ""
    mechanisms: tuple[str, ...] | None = None
    """The mechanisms that may be used by their short names; None for all there are."""
    conditions: bool = True
    accept_unproven: bool = False
    """Whether to answer with claims that hold only if a Markov chain has converged; their entries are marked."""
    dataset: str = ""
    """What the ledger calls the data, where that is another name than the server's: of the command line, a path."""

    @property
    def facts(self) -> Facts:
        """What is public of the columns."""
        return Facts({name: column.said for name, column in self.columns.items()})

    def names_for(self, system: object) -> tuple[str, ...]:
        """Return the mechanisms that may be used for a system."""
        return tuple(name for name in names_for(system) if self.mechanisms is None or name in self.mechanisms)


@dataclass(frozen=True)
class AnalystConfig:
    """Someone who asks, with a budget for each data set that is open to them."""

    name: str
    budgets: Mapping[str, Promise | float]
    """A promise of their own, or a share of the whole."""
    title: str = ""


@dataclass(frozen=True)
class Limits:
    """How much of the server one caller may take, counted by each worker."""

    requests_per_minute: float = 600.0
    address_requests_per_minute: float = 1200.0
    failures_per_minute: float = 20.0
    body_bytes: int = 65_536
    draws: int = 100
    threads: int = 32
    """Answers under way at once; each keeps its place until its tick."""
    plans: int = 64
    """Plans under way and in line; one at a time of each token."""
    answer_grid: float = 0.25
    """Answers leave at multiples of this many seconds after the question came, whatever they took to make."""


@dataclass(frozen=True)
class Tls:
    """The server's certificate and its private key, both PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Config:
    """All of it."""

    path: Path
    ledger: str
    tokens: str
    signing_key: Path
    datasets: Mapping[str, DatasetConfig]
    analysts: Mapping[str, AnalystConfig]
    limits: Limits = Limits()
    title: str = "Sottovoce"
    host: str = "127.0.0.1"
    port: int = 8400
    workers: int = 1
    grace: float = 30.0
    tls: Tls | None = None
    trusted_proxies: tuple[str, ...] = ()
    path_prefix: str = ""
    """Where the server begins at its address, such as ``/sottovoce``, where a proxy has others beside it."""
    oidc: Oidc | None = None
    anchor: str | None = None
    """Where else to note how far the ledger has come."""


def read_config(path: Path | str) -> Config:
    """Return the configuration in a TOML file, or raise `InvalidValue` naming the entry that is wrong."""
    path = Path(path).absolute()
    full = Section(toml_file(path), "the file", path.parent)
    try:
        config = _config(path, full)
        full.finish()
    except InvalidValue as error:
        raise InvalidValue(f"{path.name}: {error}") from None
    return config


def _config(path: Path, whole: Section) -> Config:
    datasets = {name: _dataset(name, section) for name, section in whole.named_tables("datasets").items()}
    if not datasets:
        raise InvalidValue("no data set is registered; add a table such as [datasets.patients]")
    sources = [dataset.source for dataset in datasets.values()]
    if twice := {source for source in sources if sources.count(source) > 1}:
        raise InvalidValue(f"{twice.pop()} is registered twice; its two budgets would add up to more than either says")
    analysts = {name: _analyst(name, section, datasets) for name, section in whole.named_tables("analysts").items()}
    limits = _limits(Section(whole.take("limits", {}), "limits", path.parent))
    server = Section(whole.take("server", {}), "server", path.parent)
    tls, prefix = server.take("tls"), server.under("path_prefix")
    oidc = Section(whole.take("oidc"), "oidc", path.parent) if whole.has("oidc") else None
    config = Config(
        path=path,
        title=server.text("title", "Sottovoce"),
        ledger=server.address("ledger", "server.ledger"),
        tokens=server.address("tokens", "server.tokens"),
        signing_key=server.path("signing_key", "server-key.pem"),
        datasets=datasets,
        analysts=analysts,
        limits=limits,
        host=server.text("host", "127.0.0.1"),
        port=server.whole("port", 8400, 1, 65535),
        workers=server.whole("workers", 1, 1, 256),
        grace=server.number("grace", 30.0, 0.0, 3600.0),
        tls=None if tls is None else _tls(Section(tls, "server.tls", path.parent)),
        trusted_proxies=_proxies(server),
        path_prefix=prefix,
        oidc=None if oidc is None else oidc_config(oidc, analysts, prefix),
        anchor=server.address("anchor") if server.has("anchor") else None,
    )
    server.finish()
    if config.tls is None and not config.trusted_proxies and not is_loopback(config.host):
        raise InvalidValue(
            f"host in [server] is {config.host!r}, where tokens and answers would cross the network in the clear; "
            "add [server.tls], or name in trusted_proxies the proxy that ends TLS before this server"
        )
    return config


def _proxies(server: Section) -> tuple[str, ...]:
    """Return the addresses of proxies. Whoever comes from one says themselves where a request comes from, and so
    escapes every limit by address: they are few.
    """
    proxies = server.texts("trusted_proxies")
    for item in proxies:
        try:
            network = ipaddress.ip_network(item)
        except ValueError:
            raise server.fail("trusted_proxies", "a list of addresses or networks, such as 10.0.0.2", item) from None
        if network.num_addresses > (_FEW[network.version] if network.is_private else 256):
            raise server.fail("trusted_proxies", "a list of a few machines of yours, not all of a wide network", item)
    return proxies


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _promise(section: Section, name: str, text: str | None = None) -> Promise:
    text = section.text(name) if text is None else text
    try:
        return parse_promise(text)
    except InvalidValue as error:
        raise InvalidValue(f"{name} in [{section.where}]: {error}") from None


def _part(section: Section, name: str) -> Promise | float:
    """Return a share of the whole, such as ``"25%"``, or a promise."""
    if "%" not in (text := section.text(name)):
        return _promise(section, name, text)
    try:
        share = read_share(name, text)
    except InvalidValue:
        share = 0.0
    if not 0 < share <= 1:
        raise section.fail(name, 'a share of the whole such as "25%", or a promise such as "approx:0.5,1e-6"', text)
    return share


def _dataset(name: str, section: Section) -> DatasetConfig:
    order = section.take("order")
    numbered = isinstance(order, int | float) and not isinstance(order, bool) and order > 1
    if order is not None and order != GAUSSIAN and not numbered:
        raise section.fail("order", f'a number > 1, or "{GAUSSIAN}"', order)
    n, budget = section.take("n"), _promise(section, "budget")
    try:
        check_pays(budget)  # before there is a ledger
    except InvalidValue as error:
        raise InvalidValue(f"budget in [{section.where}]: {error}") from None
    if n not in (None, "private"):
        raise section.fail("n", '"private", or left out', n)
    if n is not None:  # in what is explained of it, too
        budget = budget.under(replace(budget.relation, kind=ADD_REMOVE.kind))
    dataset = DatasetConfig(
        name=name,
        source=section.address("source"),
        budget=budget,
        n=n,
        protect=_protect(section),
        grows=section.flag("grows", default=False),
        period=section.text("period", "") or None,
        order=float(order) if numbered else order,
        types=_types(section),
        title=section.text("title", name),
        description=section.text("description", ""),
        mechanisms=_mechanisms(section),
        conditions=section.flag("conditions", default=True),
        accept_unproven=section.flag("accept_unproven", default=False),
        columns=_columns(section),
        dataset=section.text("dataset", ""),
    )
    section.finish()
    if not dataset.columns:
        raise InvalidValue(f"[{section.where}] has no columns; add a table such as [{section.where}.columns.smoker]")
    return dataset


def _protect(section: Section) -> Literal["persons", "rows"] | None:
    said = section.take("protect")
    if said is None or said in ("persons", "rows"):
        return said  # type: ignore[no-any-return]
    raise section.fail("protect", '"persons" or "rows"', said)


def _types(section: Section) -> dict[str, str]:
    types = section.mapping("types")
    if not all(isinstance(kind, str) for kind in types.values()):
        raise section.fail("types", 'a table of types by column, such as { age = "int64" }', types)
    return types


def _mechanisms(section: Section) -> tuple[str, ...] | None:
    names = section.texts("mechanisms")
    if not set(names) <= set(CONJUGATE):  # only then are the others worth importing
        known = known_names()
        if not set(names) <= set(known):
            missing = "".join(f"; for others {why}" for why in sorted({*map(str, MECHANISMS.not_installed().values())}))
            raise section.fail("mechanisms", f"a list of some of {', '.join(known)}{missing}", list(names))
    return names or None


def _columns(section: Section) -> dict[str, ColumnConfig]:
    """Return the columns of the file of facts, if there is one, and those of the section."""
    given = read_facts(section.path("facts")).said if section.has("facts") else {}
    columns = {name: ColumnConfig(name, fact, _readers(fact), name) for name, fact in given.items()}
    for name, table in section.tables("columns").items():
        columns[name] = _column(name, table, columns[name].fact if name in columns else None)
    if len([column for column in columns.values() if isinstance(column.fact, Person)]) > 1:
        raise InvalidValue(f"[{section.where}] names more than one person; a record belongs to one")
    facts = Facts({name: column.fact for name, column in columns.items()})
    for name, column in columns.items():
        if isinstance(column.fact, Derived):
            kind = facts[name]
            columns[name] = replace(column, fact=kind, systems=column.systems or _readers(kind), derived=column.fact)
    return columns


def _readers(fact: Column) -> tuple[str, ...]:
    """Return the systems that read such a column; of a derived one nothing is known before its facts are."""
    if isinstance(fact, Derived):
        return ()
    return tuple(word for word, kind in column_systems().items() if kind.usual(fact) is not None)


def _column(name: str, section: Section, fact: Column | None) -> ColumnConfig:
    title, wanted = section.text("title", name), section.texts("systems", among=column_systems())
    state = section.rest()
    try:
        fact = Column.from_dict(state) if state or fact is None else fact
    except InvalidValue as error:
        raise InvalidValue(f"[{section.where}]: {error}") from None
    if isinstance(fact, Category) and not 2 <= len(fact.categories) <= _MOST_CATEGORIES:
        raise section.fail("categories", f"2 to {_MOST_CATEGORIES} different texts or numbers", list(fact.categories))
    readers = _readers(fact)
    for system in wanted:
        if system not in readers:
            can = f"it can be {', '.join(readers)}" if readers else "no system does"
            raise InvalidValue(f"systems in [{section.where}]: {system} does not read a {fact.word}; {can}")
    return ColumnConfig(name, fact, wanted or readers, title)


def _analyst(name: str, section: Section, datasets: Mapping[str, DatasetConfig]) -> AnalystConfig:
    title, budgets = (
        section.text("title", name),
        Section(section.take("budgets", {}), f"{section.where}.budgets", Path()),
    )
    section.finish()
    result = {dataset: _part(budgets, dataset) for dataset in datasets if budgets.has(dataset)}
    budgets.finish()
    return AnalystConfig(name, result, title)


def _limits(section: Section) -> Limits:
    limits = Limits(
        requests_per_minute=section.number("requests_per_minute", 600.0, 1.0, 1e9),
        address_requests_per_minute=section.number("address_requests_per_minute", 1200.0, 1.0, 1e9),
        failures_per_minute=section.number("failures_per_minute", 20.0, 1.0, 1e9),
        body_bytes=section.whole("body_bytes", 65_536, 1024, 2**24),
        draws=section.whole("draws", 100, 1, 100_000),
        threads=section.whole("threads", 32, 1, 256),
        plans=section.whole("plans", 64, 1, 10_000),
        answer_grid=section.number("answer_grid", 0.25, 0.001, 60.0),
    )
    section.finish()
    return limits


def _tls(section: Section) -> Tls:
    tls = Tls(section.path("certificate"), section.path("key"))
    section.finish()
    for path in (tls.certificate, tls.key):
        if not path.is_file():
            raise InvalidValue(f"[{section.where}] names {path}, and there is no such file")
    return tls
