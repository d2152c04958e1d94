"""Markov random fields of given cliques, fully observed: private counts of the cliques, and what they say."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.latent.count_tables import CountTables, NoisyTables
from sottovoce.inference.latent.diagnostics import Convergence
from sottovoce.inference.latent.field_evidence import NoisyCliqueCounts, TrueCounts
from sottovoce.inference.latent.fields import Field, field_from, settings_of
from sottovoce.inference.latent.fitted_tables import FittedTables
from sottovoce.inference.latent.log_linear import LogLinear
from sottovoce.inference.latent.random_field_posterior import RandomFieldPosterior, family_of
from sottovoce.mechanisms.progress import progress_bar
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.records.facts import Facts

_WIDEST = 4096
"""The most cells that a sum over assignments may touch at once."""
_MOST_CELLS = 600
"""The most cells of all cliques together."""
_CHAINS, _BURN_IN, _LEAST, _MOST = 32, 10, 32, 512
"""Chains, their first steps that are thrown away, and fewest and most steps of each that are kept."""
_AGREE = 1.05
"""The R-hat up to which chains agree."""


@dataclass(frozen=True)
class MarkovRandomField(FittedTables[RandomFieldPosterior]):
    r"""Discrete variables that meet in cliques, with a table of potentials for each clique.

    .. math:: p(x) = \frac{1}{Z(\theta)} \exp \sum_c \theta_c(x_c)

    θ is spanned by effects of every set of variables inside a clique, each zero-sum along every variable, with
    independent normal coefficients. A record adds one to one cell of every clique's table, so one record replaced
    moves all tables by 2·cliques in L1. They are noised once; everything after that is free (Geumlek 2020, §4.4.2).
    Z is summed exactly by eliminating variables one by one, which takes a table over as many variables as the field
    is wide: wider fields than can be summed are refused.

    Parameters
    ----------
    fields
        The variables, with their public categories.
    cliques
        Which variables meet, by name; each in one clique at least. Public: a structure learnt from the same records
        would have to be paid for.
    spread
        The standard deviation of every coefficient's prior. With 1.5, the log-odds of two categories have a standard
        deviation of 2.1, and given all that they meet one of about 3, near that of Jeffreys' prior (π). What noise
        hides is drawn towards even odds, the more so the smaller it is; a larger one makes chains agree less.

    Examples
    --------
    >>> from sottovoce.privacy.promises import PureDP
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> a, b, c = (Field(name, ("no", "yes")) for name in "abc")
    >>> field = MarkovRandomField((a, b, c), [("a", "b"), ("b", "c"), ("a", "c")])
    >>> rng = seeded_rng(1)
    >>> first = rng.random(2000) < 0.4
    >>> records = {
    ...     name: np.where(rng.random(2000) < np.where(first, 0.8, 0.3), "yes", "no") for name in "bc"
    ... } | {"a": np.where(first, "yes", "no")}
    >>> mech = field.noisy_counts(n=2000, target=PureDP(1.0))
    >>> posterior = field.fit(mech.release(records, rng).value, rng=rng)
    >>> low, high = posterior.query_interval("b", {"a": "yes"})[1]
    >>> bool(low < 0.8 < high)
    True
    """

    structure: ClassVar[str] = "other cliques than the field's"
    word: ClassVar[str] = "Markov random field"
    mechanisms: ClassVar[tuple[str, ...]] = ("noisy statistics",)
    parameter: ClassVar[str] = "effects"
    fields: tuple[Field, ...]
    cliques: Any
    spread: float = 1.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        if not self.fields or not all(isinstance(f, Field) for f in self.fields):
            raise InvalidValue("a random field takes at least one Field a variable")
        for field in self.fields:
            if field.size < 2:
                raise InvalidValue(f"the variable {field.name!r} has a single category, which says nothing")
        object.__setattr__(self, "cliques", _checked([f.name for f in self.fields], self.cliques))
        if isinstance(self.spread, bool) or not isinstance(self.spread, int | float) or not 0 < self.spread <= 10:
            raise InvalidValue(f"spread must be a number above 0 and at most 10. Got {self.spread!r}")
        tables, tree = self.tables, self.family.tree
        if tree.cells > _WIDEST:
            raise InvalidValue(
                f"the field is {tree.width} wide: its normalizer needs a table of {tree.cells:,} cells over "
                f"{tree.width + 1} variables, and {_WIDEST:,} are summed at most. Take cliques out that close long "
                f"loops, or merge categories"
            )
        if sum(tables.sizes) > _MOST_CELLS:
            raise InvalidValue(
                f"the cliques have {sum(tables.sizes):,} cells together, and {_MOST_CELLS} are taken at most; take "
                f"smaller cliques, or merge categories"
            )

    @cached_property
    def family(self) -> LogLinear:
        """The log-linear model of the cliques."""
        return family_of(self.fields, self.cliques)

    @property
    def width(self) -> int:
        """The width of the order in which variables are summed out: 1 for a tree, 2 for a ring."""
        return self.family.tree.width

    @property
    def tables(self) -> CountTables:
        """What is counted: one table a clique."""
        return CountTables(self.fields, self.cliques)

    def _aware(self, data: NoisyTables, draws: int, rng: np.random.Generator) -> RandomFieldPosterior:
        """Where a field has no category for values outside of its list, how many are inside is one more unknown."""
        outside = any(field.other_code < 0 for field in self.fields)
        evidence = NoisyCliqueCounts(self.family, data.counts, data.noises, data.n, float(self.spread), outside)
        return self._walked(evidence, draws, rng)

    def _from_counts(
        self, counts: Sequence[Any], n: int | None, draws: int, rng: np.random.Generator
    ) -> RandomFieldPosterior:
        flat = np.concatenate([np.ravel(t) for t in counts]).astype(np.float64)
        n_inside = float(counts[0].sum()) if n is None else n
        return self._walked(TrueCounts(self.family, flat, n_inside, float(self.spread)), draws, rng)

    def _walked(
        self, evidence: NoisyCliqueCounts | TrueCounts, draws: int, rng: np.random.Generator
    ) -> RandomFieldPosterior:
        """Draw the natural parameters by elliptical slices with the exact normalizer, until the chains agree."""
        goal = max(_LEAST, -(-draws // _CHAINS))
        with progress_bar("sampling", _BURN_IN + goal) as bar:
            walk = bar.along(evidence.walk(_CHAINS, rng))
            kept = list(itertools.islice(walk, _BURN_IN, _BURN_IN + goal))
            while True:
                chains = np.stack(kept, axis=1)
                convergence = Convergence.of({"the effects": chains})
                if convergence.within(_AGREE) or len(kept) >= _MOST:
                    break
                bar.reach(_BURN_IN + 2 * len(kept))
                kept += itertools.islice(walk, len(kept))
        convergence.warn("take smaller cliques, a smaller spread, or ask for a larger ε", _AGREE)
        flat = chains.reshape(-1, chains.shape[-1])
        subset = np.linspace(0, len(flat) - 1, draws).astype(int)
        return RandomFieldPosterior(self.fields, self.cliques, flat[subset], convergence)

    def to_dict(self) -> dict[str, object]:
        """Return the public description."""
        fields, cliques = [f.to_dict() for f in self.fields], [list(clique) for clique in self.cliques]
        return {"system": self.word, "fields": fields, "cliques": cliques, "spread": self.spread}

    @classmethod
    def from_facts(cls, settings: Mapping[str, object], facts: Facts, column: str | None = None) -> Self:
        """Return the field of a question: ``cliques`` of columns by their names, ``spread``."""
        del column
        given = settings_of(cls.word, settings, "cliques", "spread")
        cliques = given.get("cliques")
        listed = isinstance(cliques, list) and cliques and all(isinstance(clique, list) for clique in cliques)
        if not listed or not all(isinstance(name, str) for clique in cliques for name in clique):  # type: ignore[union-attr]
            raise InvalidValue(f'a {cls.word} needs cliques of columns, such as [["ward", "smoker"], ["ward", "ill"]]')
        names = dict.fromkeys(name for clique in cliques for name in clique)  # type: ignore[union-attr]
        return cls(tuple(Field.from_facts(n, facts[n]) for n in names), cliques, given.get("spread", cls.spread))

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Self:
        """Read a field from `to_dict`'s form."""
        state = mapping("Markov random field", state)
        with restoring("a random field"):
            return cls(tuple(map(field_from, state["fields"])), state["cliques"], state.get("spread", 1.0))


def _checked(names: Sequence[str], cliques: Any) -> tuple[tuple[str, ...], ...]:
    """Return cliques as tuples, their variables in the order of the fields, or raise `InvalidValue`."""
    if isinstance(cliques, str) or any(isinstance(clique, str) for clique in cliques):
        raise InvalidValue('cliques must be a list of lists of names, such as [["a", "b"], ["b", "c"]]')
    result = []
    for clique in map(tuple, cliques):
        if unknown := [name for name in clique if name not in names]:
            raise InvalidValue(f"no variable is called {unknown[0]!r}; there are {', '.join(names)}")
        if not clique or len(set(clique)) < len(clique):
            raise InvalidValue("a clique is one or more different variables")
        result.append(tuple(name for name in names if name in clique))
    for i, clique in enumerate(result):
        if any(set(clique) <= set(other) for j, other in enumerate(result) if i != j):
            raise InvalidValue(f"the clique ({', '.join(clique)}) lies inside another, which says all it says")
    if alone := [name for name in names if not any(name in clique for clique in result)]:
        raise InvalidValue(f"{alone[0]!r} is in no clique; give it one, of itself if it meets nobody")
    return tuple(result)
