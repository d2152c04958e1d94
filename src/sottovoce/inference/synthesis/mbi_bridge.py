"""Noisy marginals as measurements of mbi (private-pgm) and back, so that either can fit what the other released."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import sparse

from sottovoce.inference.synthesis.noisy_marginal import NoisyMarginal
from sottovoce.inference.synthesis.table_columns import TableColumns
from sottovoce.inference.synthesis.table_posterior import TablePosterior
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown, whole

__all__ = ["from_mbi", "to_mbi"]


def to_mbi(posterior: TablePosterior) -> tuple[Any, list[Any]]:
    """Return the domain and the measurements that mbi 2 fits: ``MirrorDescent().estimate(domain, measurements)``.

    Counts of several cells together, and counts whose noise differs, are measured by a query of their own.
    """
    import mbi  # noqa: PLC0415 - an environment may have it or not

    names = posterior.fit.names
    domain = mbi.Domain(names, tuple(posterior.columns.sizes[name] for name in names))
    return domain, [_measurement(mbi, item) for item in posterior.marginals]


def _measurement(mbi: Any, item: NoisyMarginal) -> Any:
    deviation = np.sqrt(item.variance)
    if np.array_equal(item.place, np.arange(item.counts.size)) and np.ptp(item.variance) == 0:
        return mbi.LinearMeasurement(item.counts, item.clique, float(deviation[0]))
    # One deviation for all of a measurement: every count in units of its own noise.
    return mbi.LinearMeasurement(item.counts / deviation, item.clique, 1.0, _query(item, deviation))


def _query(item: NoisyMarginal, deviation: Any) -> Callable[[Any], Any]:
    inside = np.flatnonzero(item.place >= 0)
    shape = (item.counts.size, item.place.size)
    sums = sparse.csr_matrix((1 / deviation[item.place[inside]], (item.place[inside], inside)), shape).toarray()
    return lambda factor: sums @ factor.datavector()


def from_mbi(columns: TableColumns, n: int, measurements: Iterable[Any]) -> TablePosterior:
    """Return the posterior of a table given measurements of all cells of cliques, as mbi holds them.

    Parameters
    ----------
    columns
        The columns, cut as they were measured: ``TableColumns.even(facts, 16)``.
    n
        How many records there are.
    measurements
        ``LinearMeasurement`` with the identity for a query, the last column of a clique fastest.
    """
    marginals = []
    for number, item in enumerate(measurements):
        clique = tuple(map(str, item.clique))
        if missing := [name for name in clique if name not in columns.parts]:
            raise InvalidValue(f"there is no column {shown(missing[0])} here; there are {', '.join(columns.parts)}")
        counts = np.asarray(item.noisy_measurement, dtype=np.float64).ravel()
        if counts.size != int(np.prod(columns.shape(clique))):
            raise InvalidValue(
                f"a measurement of {' × '.join(clique)} has {counts.size} numbers, and the columns have "
                f"{int(np.prod(columns.shape(clique)))} cells: only measurements of every cell are taken"
            )
        marginals.append(NoisyMarginal.of_table(clique, counts, float(item.stddev) ** 2, f"measurement {number + 1}"))
    if not marginals:
        raise InvalidValue("there are no measurements")
    return TablePosterior(columns, whole("n", n, 1), tuple(marginals))
