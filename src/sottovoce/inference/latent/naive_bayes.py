"""Naive Bayes: classes whose columns are independent given the class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.latent.class_draws import draw_classes
from sottovoce.inference.latent.class_posterior import ClassPosterior
from sottovoce.inference.latent.count_tables import CountTables, columns_by_name
from sottovoce.inference.latent.diagnostics import Convergence
from sottovoce.inference.latent.fields import Bounded, Field, field_from, field_of, settings_of
from sottovoce.inference.latent.gibbs_sampler import draw_dirichlet
from sottovoce.inference.latent.moment_posterior import moment_draws, moment_posterior, moments
from sottovoce.mechanisms.category_marginals import YES, lone_shares
from sottovoce.mechanisms.forecast import Forecast
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Facts
from sottovoce.records.readings import ClassMoments, Statistics
from sottovoce.records.readings.class_moments import STEPS

_LEAST = 0.1
"""Noise on the sizes of classes less than this is none."""


@dataclass(frozen=True)
class NaiveBayesModel:
    r"""A class, and columns that are independent given it: categories, and numbers that are normal within a class.

    .. math:: p(c, x) = \pi_c \prod_f \theta_{f \mid c}(x_f)

    with Dirichlet priors on the classes and on the categories of each class (Geumlek 2020, §4.4-4.5). Every (class,
    category) table and the first two moments of every number by class are all that is needed of the records.

    Parameters
    ----------
    label
        The class, with its public list.
    fields
        One `Field` (categories) or `Bounded` (numbers) a column. A value outside of a list counts as its `other`, the
        first category unless that is given: every record has its class.
    alpha, class_alpha
        What each category, and each class, is worth in its Dirichlet prior, in records; one over their number where
        None.
    noise_aware
        Average over what the true counts may have been, so that probabilities and intervals know of the noise.
    draws
        How many draws of the parameters a release through noise holds; they are free.

    Examples
    --------
    >>> from sottovoce.mechanisms import NoisyStatistics
    >>> from sottovoce.privacy.promises import PureDP
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> model = NaiveBayesModel(Field("ill", (False, True)), (Field("cough", (0, 1)), Bounded("age", 0, 100)))
    >>> rng = seeded_rng(1)
    >>> ill = rng.random(3000) < 0.3
    >>> cough, age = rng.random(3000) < 0.2 + 0.6 * ill, 40 + 20 * ill + rng.normal(0, 9, 3000)
    >>> records = {"ill": ill, "cough": cough, "age": age}
    >>> mech = NoisyStatistics.calibrate(model, n=3000, target=PureDP(1.0))
    >>> posterior = mech.release(records, rng).value
    >>> posterior.part("age").mean(axis=0)[:, 0].round(-1)
    array([40., 60.])
    """

    word: ClassVar[str] = "naive bayes"
    parameter: ClassVar[str] = "classes and features"
    mechanisms: ClassVar[tuple[str, ...]] = ("noisy statistics", "tempered naive Bayes")
    label: Field
    fields: tuple[Field | Bounded, ...]
    alpha: float | None = None
    class_alpha: float | None = None
    noise_aware: bool = True
    draws: int = 256

    def __post_init__(self) -> None:
        fields = tuple(self.fields)
        kinds = all(isinstance(field, Field | Bounded) for field in fields)
        if not fields or not kinds or not isinstance(self.label, Field):
            raise InvalidValue("features must be a list of Field (categories) or Bounded (numbers), one a column of X")
        names = [self.label.name, *(field.name for field in fields)]
        if len(set(names)) < len(names):
            raise InvalidValue(f"class and features must have different names. Got {', '.join(names)}")
        if self.label.size < 2 or any(isinstance(f, Field) and f.size < 2 for f in fields):
            raise InvalidValue("classes and every Field need at least 2 categories")
        for name in ("alpha", "class_alpha"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and 0 < value < float("inf")):
                raise InvalidValue(f"{name} must be a positive number. Got {value!r}")
        object.__setattr__(self, "label", self.label.complete())
        object.__setattr__(self, "fields", tuple(f.complete() if isinstance(f, Field) else f for f in fields))
        object.__setattr__(self, "draws", whole("draws", self.draws, 1))

    @property
    def kinds(self) -> tuple[Field, ...]:
        """The columns of categories."""
        return tuple(field for field in self.fields if isinstance(field, Field))

    @property
    def numbers(self) -> tuple[Bounded, ...]:
        """The columns of numbers."""
        return tuple(field for field in self.fields if isinstance(field, Bounded))

    @property
    def columns(self) -> list[str]:
        """The columns to read, in order: the class, the categories, the numbers."""
        return [self.label.name, *(field.name for field in self.kinds), *(field.name for field in self.numbers)]

    @property
    def tables(self) -> CountTables:
        """What is counted: one table (class, category) a column; the classes alone where there is none."""
        crossed = tuple((self.label.name, field.name) for field in self.kinds) or ((self.label.name,),)
        return CountTables((self.label, *self.kinds), crossed)

    @property
    def block_names(self) -> list[str]:
        """What each table and each number's sums go by."""
        return [*self.tables.block_names, *(field.name for field in self.numbers)]

    @property
    def reading(self) -> ClassMoments:
        """How a record becomes S(x): public lists and bounds, so that a database can count and add by itself."""
        coded = (self.label, *self.kinds)
        return ClassMoments(
            self.label.categories,
            tuple(field.categories for field in self.kinds),
            tuple(field.other_code for field in coded),
            tuple(field.bounds for field in self.numbers),
        )

    def statistics(self, records: object) -> Statistics:
        """Return n, the counts and the sums of records in memory."""
        return self.reading.read(columns_by_name(records, self.columns))

    def alpha_of(self, size: int) -> float:
        """Return what each of so many categories is worth."""
        return 1 / size if self.alpha is None else float(self.alpha)

    @property
    def class_prior(self) -> float:
        """What each class is worth."""
        return 1 / self.label.size if self.class_alpha is None else float(self.class_alpha)

    def through_blocks(
        self, n: int, total: Floats, noises: Sequence[IntegerNoise], rng: np.random.Generator
    ) -> ClassPosterior:
        """Return draws that count the true tables and sums as unknown, or take them at their word (`noise_aware`)."""
        if not self.noise_aware or n == 0:
            return self.plain(total, rng)
        tables, sums = self.reading.split(np.rint(total).astype(np.int64))
        priors = [self.alpha_of(table.shape[1]) for table in tables]
        result = draw_classes(tables, noises[: len(tables)], n, self.class_prior, priors, self.draws, rng)
        remainder = zip(sums, noises[len(tables) :], strict=True)
        numbers = [moment_posterior(s, noise, STEPS, result.sizes, rng) for s, noise in remainder]
        worst = Convergence.worst_of([result.convergence, *(m.convergence for m in numbers)])
        if worst is not None:
            worst.warn("leave out some features, or ask for a larger ε")
        features = self.in_order(result.features, [m.values for m in numbers])
        lone = self._lone(tables, noises, result.sizes)
        return ClassPosterior(self.label, self.fields, result.classes, features, total, worst, lone)

    def _lone(self, tables: Sequence[Floats], noises: Sequence[IntegerNoise], sizes: Floats) -> dict[str, Floats]:
        """Return draws of each share as if it alone were asked for, where the prior takes it to be rarer."""
        rng, result = seeded_rng(0), {}  # what else is drawn stays as it is
        if self.class_prior < YES:  # all tables tell of the classes: the noise on their mean is about normal
            variance = sum(t.shape[1] * noise.variance for t, noise in zip(tables, noises, strict=False))
            noise = IntegerNoise("gaussian", max(np.sqrt(variance) / len(tables), _LEAST))
            seen = np.mean([table.sum(axis=1) for table in tables], axis=0)
            n = sizes.sum(axis=1, keepdims=True)
            result[self.label.name] = lone_shares(seen[None], noise, n, rng)[:, 0]
        for field, table, noise in zip(self.kinds, tables, noises, strict=False):
            if self.alpha_of(field.size) < YES:
                result[field.name] = lone_shares(table, noise, sizes, rng)
        return result

    def forecast_blocks(self, n: int, mean: object, noises: Sequence[IntegerNoise], level: float) -> Forecast:
        """Return what to expect of the tables' proportions; numbers are left aside."""
        tables = self.tables
        cells = np.atleast_1d(np.asarray(mean, dtype=np.float64))[: sum(tables.sizes)]
        return tables.forecast_blocks(n, cells, noises[: len(tables.tables)], level)

    def point(self, total: Floats) -> ClassPosterior:
        """Return the posterior means that take statistics at their word, as a single draw."""
        tables, sums, sizes = self._at_their_word(total)
        means = [(t / t.sum(axis=1, keepdims=True))[None] for t in tables]
        classes = (sizes + self.class_prior) / (sizes + self.class_prior).sum()
        features = self.in_order(means, [moments(s, STEPS, sizes)[None] for s in sums])
        return ClassPosterior(self.label, self.fields, classes[None], features, total)

    def plain(self, total: Floats, rng: np.random.Generator) -> ClassPosterior:
        """Return draws that take statistics at their word."""
        tables, sums, sizes = self._at_their_word(total)
        repeated = np.broadcast_to(sizes, (self.draws, sizes.size))
        classes = draw_dirichlet(repeated + self.class_prior, rng)
        thetas = [draw_dirichlet(np.broadcast_to(t, (self.draws, *t.shape)), rng) for t in tables]
        features = self.in_order(thetas, [moment_draws(s, STEPS, repeated, rng) for s in sums])
        return ClassPosterior(self.label, self.fields, classes, features, total)

    def _at_their_word(self, total: Floats) -> tuple[list[Floats], list[Floats], Floats]:
        """Return the tables with their priors, the sums, and the sizes of the classes."""
        tables, sums = self.reading.split(total)
        counts = [np.maximum(table, 0.0) for table in tables]
        if not self.kinds:
            return [], sums, counts[0][:, 0]
        sizes = np.mean([t.sum(axis=1) for t in counts], axis=0)
        return [t + self.alpha_of(t.shape[1]) for t in counts], sums, sizes

    def in_order(self, kinds: Sequence[Floats], numbers: Sequence[Floats]) -> tuple[Floats, ...]:
        """Return the draws of both kinds of columns in the order of the fields."""
        of_kinds, of_numbers = iter(kinds), iter(numbers)
        return tuple(np.asarray(next(of_kinds if isinstance(f, Field) else of_numbers)) for f in self.fields)

    def to_dict(self) -> dict[str, object]:
        """Return the public description."""
        return {
            "system": self.word,
            "label": self.label.to_dict(),
            "fields": [field.to_dict() for field in self.fields],
            "alpha": self.alpha,
            "class_alpha": self.class_alpha,
            "noise_aware": self.noise_aware,
            "draws": self.draws,
        }

    @classmethod
    def from_facts(cls, settings: Mapping[str, object], facts: Facts, column: str | None = None) -> Self:
        """Return the model of a question: ``label`` and ``features`` by their columns, ``alpha``, ``class_alpha``."""
        del column
        given = settings_of(cls.word, settings, "label", "features", "alpha", "class_alpha")
        if "features" not in given:
            raise InvalidValue(f"a {cls.word} model needs label and features")
        label = Field.from_facts(given["label"], facts[given.pop("label")])
        return cls(label, tuple(field_of(name, facts[name]) for name in given.pop("features")), **given)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read a model from `to_dict`'s form."""
        remainder = {name: value for name, value in state.items() if name not in ("system", "kind")}
        with restoring("a naive Bayes model"):
            label, fields = field_from(remainder.pop("label")), tuple(map(field_from, remainder.pop("fields")))
            return cls(label, fields, **remainder)
