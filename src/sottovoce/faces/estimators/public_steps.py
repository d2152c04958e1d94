"""Public steps before a private fit: maps of single rows by facts that are given, never read off the records."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline

from sottovoce.faces.estimators.pipeline_guard import learns_nothing, what_to_write
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.cells import class_places, fill, finite, missing_values, table_of


class _PublicStep(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A transformer that knows all it needs before it sees a record; fitting it counts columns and no more.

    A mapping names the columns of a data frame to be used, in its own order, or says what each column of an array is;
    a sequence holds one entry a column.
    """

    learns_nothing = True

    @abstractmethod
    def _facts(self) -> Any:
        """Return what is public of the columns, as it was given."""

    def _read(self) -> tuple[list[Any] | None, list[Any]]:
        """Return the columns' names, if any, and what is public of each."""
        facts = self._facts()
        if isinstance(facts, Mapping) and facts:
            return list(facts), list(facts.values())
        if isinstance(facts, Sequence | np.ndarray) and not isinstance(facts, str) and len(facts):
            return None, list(facts)
        raise InvalidValue(
            f"{type(self).__name__} needs what is public of every column: a mapping by name, or one entry a column"
        )

    def _columns(self, X: Any) -> Any:
        """Return the named columns of X, each a one-dimensional array of cells as they were given, and the names."""
        names, facts = self._read()
        if names is not None and hasattr(X, "columns"):
            unknown = [name for name in names if name not in list(X.columns)]
            if unknown:
                raise InvalidData(f"X has no column {unknown[0]!r}")
            return [np.asarray(X[name]) for name in names]
        cells = X if isinstance(X, np.ndarray) else _cells(X, len(facts))
        if cells.ndim != 2 or cells.shape[1] != len(facts):
            raise InvalidData(f"X must be a table of {len(facts)} columns. Got shape {cells.shape}")
        return list(cells.T)

    def fit(self, X: object = None, y: object = None) -> Self:
        """Return self: all that there is to know was given."""
        self.data_norm_ = self.data_norm
        self.n_features_in_ = len(self._read()[1])
        return self

    @property
    @abstractmethod
    def data_norm(self) -> float:
        """A public bound on the norm of every transformed row."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        return tags


class PublicScaler(_PublicStep):
    """Scale numbers by public bounds: low becomes −1, high becomes 1, and what lies beyond is clipped.

    Parameters
    ----------
    bounds
        ``{name: (low, high)}`` or one pair a column.
    missing
        What a cell that holds no number becomes, on the scale of −1 to 1; 0 is the middle.

    Attributes
    ----------
    data_norm
        √d, a bound on every row's norm: give it to the estimator, with room for an intercept.

    Examples
    --------
    >>> PublicScaler([(0, 100), (-1, 1)]).fit_transform([[50, 1], [200, None], ["x", -0.5]]).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, -0.5]]
    """

    def __init__(self, bounds: object = None, *, missing: object = 0.0) -> None:
        self.bounds = bounds
        self.missing = missing

    def _facts(self) -> Any:
        return self.bounds

    @property
    def data_norm(self) -> float:
        """√d."""
        return math.sqrt(len(self._limits()))

    def _limits(self) -> list[tuple[float, float]]:
        pairs = []
        for pair in self._read()[1]:
            try:
                low, high = (float(end) for end in pair)
            except (TypeError, ValueError, OverflowError):
                raise InvalidValue(f"bounds must be pairs (low, high) of numbers. Got {pair!r}") from None
            if not -math.inf < low < high < math.inf:
                raise InvalidValue(f"bounds must be finite with low < high. Got {pair!r}")
            pairs.append((low, high))
        return pairs

    def transform(self, X: object) -> Floats:
        """Return the scaled columns, every entry from −1 to 1."""
        limits = self._limits()
        missing = np.clip(missing_values(self.missing, len(limits)), -1.0, 1.0)
        columns = [_scaled(column, *pair) for column, pair in zip(self._columns(X), limits, strict=True)]
        return fill(np.stack(columns, axis=1), missing)

    def get_feature_names_out(self, input_features: object = None) -> Any:
        """Return the columns' names."""
        return np.array(_names(self._read(), input_features), dtype=object)


class PublicEncoder(_PublicStep):
    """Turn categories into columns of 0 and 1, one for each category of a public list.

    Parameters
    ----------
    categories
        ``{name: [category, …]}`` or one list a column. A cell that is none of them is 0 everywhere.

    Attributes
    ----------
    data_norm
        The norm of every row at most: the root of the number of columns that are encoded.

    Examples
    --------
    >>> PublicEncoder([["A", "B"], [1, 2]]).fit_transform([["B", 1], ["C", "2"], [None, 3]]).tolist()
    [[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
    """

    def __init__(self, categories: object = None) -> None:
        self.categories = categories

    def _facts(self) -> Any:
        return self.categories

    @property
    def data_norm(self) -> float:
        """The root of the number of columns that are encoded."""
        return math.sqrt(len(self._lists()))

    def _lists(self) -> list[list[object]]:
        lists = []
        for given in self._read()[1]:
            if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) or len(given) == 0:
                raise InvalidValue(f"categories must be lists, one a column. Got {given!r}")
            lists.append(list(given))
        return lists

    def transform(self, X: object) -> Floats:
        """Return one column for each category."""
        parts = []
        for column, known in zip(self._columns(X), self._lists(), strict=True):
            # A place before the first stands for every cell that is no category.
            place = class_places(column, [_NoColumns(), *known])
            parts.append(np.eye(len(known) + 1)[place][:, 1:])
        return np.concatenate(parts, axis=1)

    def get_feature_names_out(self, input_features: object = None) -> Any:
        """Return ``column_category`` for each new column."""
        names = _names(self._read(), input_features)
        built = [f"{name}_{value}" for name, known in zip(names, self._lists(), strict=True) for value in known]
        return np.array(built, dtype=object)


class PublicFunction(_PublicStep):
    """Apply an elementwise function of NumPy to the cells of each column.

    A function of a whole array, as `FunctionTransformer` takes, may mix the rows; a universal function of NumPy with
    one argument cannot.

    Parameters
    ----------
    functions
        ``{name: np.log1p}`` or one function a column; None leaves the column as it is.
    missing
        What a cell becomes that holds no number, or has no finite value under the function.

    Attributes
    ----------
    data_norm
        ∞: nothing bounds the values. Scale them by public bounds, or leave it to the estimator's own `data_norm`.

    Examples
    --------
    >>> import numpy as np
    >>> PublicFunction([np.sqrt, None]).fit_transform([[4, 5], [-1, "x"]]).tolist()
    [[2.0, 5.0], [0.0, 0.0]]
    >>> PublicFunction([np.sort]).fit([[1.0]])
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.InvalidValue: functions must be elementwise ones of NumPy, as np.log1p. Got sort
    """

    def __init__(self, functions: object = None, *, missing: object = 0.0) -> None:
        self.functions = functions
        self.missing = missing

    def _facts(self) -> Any:
        return self.functions

    def _read(self) -> tuple[list[Any] | None, list[Any]]:
        names, functions = super()._read()
        for function in functions:
            if function is not None and not _is_elementwise(function):
                got = getattr(function, "__name__", repr(function))
                raise InvalidValue(f"functions must be elementwise ones of NumPy, as np.log1p. Got {got}")
        return names, functions

    @property
    def data_norm(self) -> float:
        """∞."""
        return math.inf

    def transform(self, X: object) -> Floats:
        """Return each column's values under its function."""
        functions = self._read()[1]
        values = np.stack([_numbers(column) for column in self._columns(X)], axis=1)
        with np.errstate(all="ignore"):
            mapped = [column if f is None else f(column) for f, column in zip(functions, values.T, strict=True)]
        results = np.where(np.isnan(values), np.nan, finite(np.stack(mapped, axis=1)))
        return fill(results, missing_values(self.missing, len(functions)))

    def get_feature_names_out(self, input_features: object = None) -> Any:
        """Return the columns' names."""
        return np.array(_names(self._read(), input_features), dtype=object)


def _is_elementwise(function: object) -> bool:
    """Say whether a function is one of NumPy's own that maps each number by itself (`np.frompyfunc` may remember)."""
    return (
        isinstance(function, np.ufunc)
        and (function.nin, function.nout, function.signature) == (1, 1, None)
        and any(kinds.startswith("d->") for kinds in function.types)
        and getattr(np, function.__name__, None) is function
    )


class _NoColumns:
    """What no cell is."""

    def __str__(self) -> str:
        return f"\0nothing at {id(self)}"


def _numbers(column: Any) -> Floats:
    """Return a column's cells as numbers, NaN where there is none."""
    return finite(table_of(column.reshape(-1, 1)))[:, 0]


def _scaled(column: object, low: float, high: float) -> Floats:
    values = _numbers(column)
    width = high - low
    with np.errstate(invalid="ignore"):
        inside = np.clip(values, low, high)
        # Halves where the width itself is beyond the range of doubles.
        part = (inside - low) / width if math.isfinite(width) else (inside / 2 - low / 2) / (high / 2 - low / 2)
        return np.clip(2 * part - 1, -1.0, 1.0)


def _cells(X: object, columns: int) -> Any:
    """Return any table as cells, each as it was given; rows of a list are cut or padded."""
    if isinstance(X, list | tuple):
        cells = np.full((len(X), columns), None, dtype=object)
        for k, row in enumerate(X):
            for j, cell in enumerate(list(row)[:columns] if isinstance(row, list | tuple | np.ndarray) else ()):
                cells[k, j] = cell
        return cells
    if hasattr(X, "__array__"):
        return np.asarray(X)
    raise InvalidData(f"X must be an array, a data frame or a list. Got {type(X).__name__}")


def _names(read: tuple[list[object] | None, list[object]], given: Any) -> list[str]:
    names, facts = read
    if names is None and given is None:
        return [f"x{k}" for k in range(len(facts))]
    return [str(name) for name in (names if names is not None else given)]


def private_pipeline(*steps: object) -> Any:
    """Return a scikit-learn pipeline of the steps, the last of them an estimator, all the others public.

    Raises
    ------
    InvalidValue
        If a step would learn from the private records.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sottovoce.faces.estimators import LinearRegression, PublicScaler
    >>> model = LinearRegression(1.0, 1e-6, data_norm=1.5, response_bound=1.0)
    >>> [name for name, _ in private_pipeline(PublicScaler([(0, 100), (0, 1)]), model).steps]
    ['publicscaler', 'linearregression']
    >>> private_pipeline(StandardScaler(), model)
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.InvalidValue: StandardScaler learns from the private records ...
    """
    if not steps:
        raise InvalidValue("a pipeline needs at least an estimator")
    for step in steps[:-1]:
        if not learns_nothing(step):
            raise InvalidValue(
                f"{type(step).__name__} learns from the private records and pays nothing for it: {what_to_write(step)}"
            )
    return make_pipeline(*steps)
