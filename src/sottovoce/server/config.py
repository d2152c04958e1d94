"""What the administrator decides: data sets, bounds, budgets, analysts, limits; a TOML file read into values."""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sottovoce.mechanisms.choices import CONJUGATE
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.server.sections import Section
from sottovoce.systems.naming import SYSTEMS

__all__ = ["AnalystConfig", "ColumnConfig", "Config", "DatasetConfig", "Limits", "Tls", "is_loopback", "read_config"]

_FEW = {4: 2**16, 6: 2**64}
"""The most addresses that a private network of proxies may have: a container's bridge has as many."""


@dataclass(frozen=True)
class ColumnConfig:
    """What may be asked of a column, and the public facts that clip it.

    Attributes
    ----------
    name
        What analysts call it: a column of the table, or, with `of`, a name for several of them.
    systems
        The systems it may be read with.
    bounds, categories, radius
        What a record can be; each goes with the systems that ask for it.
    of
        The columns of a vector.
    """

    name: str
    systems: tuple[str, ...]
    title: str = ""
    bounds: tuple[float, float] | None = None
    categories: tuple[str | int | bool, ...] | None = None
    radius: float | None = None
    of: tuple[str, ...] = ()


@dataclass(frozen=True)
class DatasetConfig:
    """A data set: where it is, what all analysts together may learn, what may be asked.

    `types` are those of a CSV file's columns, as for `open_table`.
    """

    name: str
    source: str
    budget: Promise
    columns: Mapping[str, ColumnConfig]
    order: float | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    description: str = ""
    mechanisms: tuple[str, ...] = CONJUGATE
    conditions: bool = True


@dataclass(frozen=True)
class AnalystConfig:
    """Someone who asks, with a budget for each data set that is open to them."""

    name: str
    budgets: Mapping[str, Promise]
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
    anchor: str | None = None
    """Where else to note how far the ledger has come."""


def read_config(path: Path | str) -> Config:
    """Return the configuration in a TOML file, or raise `InvalidValue` naming the entry that is wrong."""
    path = Path(path).absolute()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"{path} is not TOML: {error}") from None
    whole = Section(content, "the file", path.parent)
    try:
        config = _config(path, whole)
        whole.finish()
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
    tls = server.take("tls")
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
    for one in proxies:
        try:
            network = ipaddress.ip_network(one)
        except ValueError:
            raise server.fail("trusted_proxies", "a list of addresses or networks, such as 10.0.0.2", one) from None
        if network.num_addresses > (_FEW[network.version] if network.is_private else 256):
            raise server.fail("trusted_proxies", "a list of a few machines of yours, not all of a wide network", one)
    return proxies


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _promise(section: Section, name: str) -> Promise:
    text = section.text(name)
    try:
        return parse_promise(text)
    except InvalidValue as error:
        raise InvalidValue(f"{name} in [{section.where}]: {error}") from None


def _dataset(name: str, section: Section) -> DatasetConfig:
    order = section.take("order")
    if order is not None and (isinstance(order, bool) or not isinstance(order, int | float) or order <= 1):
        raise section.fail("order", "a number > 1", order)
    dataset = DatasetConfig(
        name=name,
        source=section.address("source"),
        budget=_promise(section, "budget"),
        order=None if order is None else float(order),
        types=_types(section),
        title=section.text("title", name),
        description=section.text("description", ""),
        mechanisms=section.texts("mechanisms", CONJUGATE, among=CONJUGATE),
        conditions=section.flag("conditions", default=True),
        columns={key: _column(key, table) for key, table in section.tables("columns").items()},
    )
    section.finish()
    if not dataset.columns:
        raise InvalidValue(f"[{section.where}] has no columns; add a table such as [{section.where}.columns.smoker]")
    return dataset


def _types(section: Section) -> dict[str, str]:
    types = section.mapping("types")
    if not all(isinstance(kind, str) for kind in types.values()):
        raise section.fail("types", 'a table of types by column, such as { age = "int64" }', types)
    return types


def _column(name: str, section: Section) -> ColumnConfig:
    bounds, categories = section.take("bounds"), section.take("categories")
    radius, of = section.take("radius"), section.texts("of")
    if bounds is not None and not _is_interval(bounds):
        raise section.fail("bounds", "two numbers [low, high], low < high", bounds)
    if categories is not None and (
        not isinstance(categories, list)
        or not 2 <= len(categories) <= 64
        or not all(isinstance(c, str | int) for c in categories)
        or len(set(categories)) != len(categories)
    ):
        raise section.fail("categories", "2 to 64 different texts or whole numbers", categories)
    if (radius is None) != (not of) or (radius is not None and not (_is_number(radius) and radius > 0)):
        raise section.fail("radius", "a number > 0 beside of = [columns of the vector]", radius)
    kinds = {
        "beta-bernoulli": bounds is None and categories is None and not of,
        "dirichlet-categorical": categories is not None,
        "gamma-poisson": bounds is not None and bounds[0] == 0 and bounds[1] == int(bounds[1]),
        "gamma-exponential": bounds is not None and bounds[0] == 0,
        "normal-mean": bounds is not None or bool(of),
    }
    systems = section.texts("systems", tuple(k for k, fits in kinds.items() if fits), among=SYSTEMS)
    for system in systems:
        if not kinds[system]:
            raise InvalidValue(f"systems in [{section.where}]: {system} needs {_NEEDS[system]}")
    column = ColumnConfig(
        name=name,
        systems=systems,
        title=section.text("title", name),
        bounds=None if bounds is None else (float(bounds[0]), float(bounds[1])),
        categories=None if categories is None else tuple(categories),
        radius=None if radius is None else float(radius),
        of=of,
    )
    section.finish()
    return column


_NEEDS = {
    "beta-bernoulli": "a column of truth values: no bounds, categories or radius",
    "dirichlet-categorical": "categories = [...]",
    "gamma-poisson": "bounds = [0, high] with a whole number high",
    "gamma-exponential": "bounds = [0, high]",
    "normal-mean": "bounds = [low, high], or of = [...] and radius",
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _is_interval(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)) and value[0] < value[1]


def _analyst(name: str, section: Section, datasets: Mapping[str, DatasetConfig]) -> AnalystConfig:
    title, budgets = (
        section.text("title", name),
        Section(section.take("budgets", {}), f"{section.where}.budgets", Path()),
    )
    section.finish()
    found = {dataset: _promise(budgets, dataset) for dataset in datasets if budgets.has(dataset)}
    budgets.finish()
    return AnalystConfig(name, found, title)


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
