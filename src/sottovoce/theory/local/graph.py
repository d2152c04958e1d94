"""Profile graphs: the distributions a record may come from, and which pairs must look alike."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.theory.local.distributions import (
    Distribution,
    categories_of,
    distribution_of,
    edges_of,
    fraction_of,
    some,
)


@dataclass(frozen=True, eq=False)
class ProfileGraph:
    """Profiles over named categories, and edges between those to be made indistinguishable.

    The profiles are public: an observer knows all of them and must not learn which one a record came from, at least not
    which end of an edge (Geumlek 2020, Definition 25). Probabilities are taken as exact rational numbers and divided by
    their exact sum, which must be 1 to within 1e-9.

    Parameters
    ----------
    profiles
        For each profile's name, a mapping from category to probability (a missing category has probability 0), or a
        sequence in the order of `categories`.
    edges
        Pairs of names. Direction does not matter; repeated edges count once.
    categories
        Their names in order. By default, the keys met in the mappings, or 0, 1, … for sequences.

    Examples
    --------
    >>> users = {"ann": {"cpu": 0.7, "gpu": 0.3}, "bob": {"cpu": 0.5, "gpu": 0.5}}
    >>> graph = ProfileGraph(users, [("ann", "bob")])
    >>> graph.names, graph.categories, graph.components
    (('ann', 'bob'), ('cpu', 'gpu'), ((0, 1),))
    """

    profiles: Mapping[Hashable, Distribution] = field(repr=False)
    edges: tuple[tuple[Hashable, Hashable], ...]
    categories: tuple[Hashable, ...]
    names: tuple[Hashable, ...]
    exact: tuple[tuple[Fraction, ...], ...] = field(repr=False)
    """The probabilities as exact fractions; every row sums to one."""

    def __init__(
        self,
        profiles: Mapping[Any, Distribution],
        edges: Iterable[Sequence[Hashable]],
        categories: Iterable[Hashable] | None = None,
    ) -> None:
        if not isinstance(profiles, Mapping) or not profiles:
            raise InvalidValue(f"profiles must map at least one name to a distribution. Got {profiles!r}")
        names = tuple(profiles)
        labels = categories_of(profiles, categories)
        exact = tuple(distribution_of(name, profiles[name], labels) for name in names)
        for attribute, value in (
            ("names", names),
            ("categories", labels),
            ("exact", exact),
            ("edges", edges_of(edges, names)),
            (
                "profiles",
                {n: dict(zip(labels, map(float, row), strict=True)) for n, row in zip(names, exact, strict=True)},
            ),
        ):
            object.__setattr__(self, attribute, value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ProfileGraph)
            and self.names == other.names
            and self.categories == other.categories
            and self.exact == other.exact
            and set(map(frozenset, self.edges)) == set(map(frozenset, other.edges))
        )

    def __hash__(self) -> int:
        return hash((self.names, self.categories, self.exact))

    # Builders.

    @classmethod
    def complete(
        cls, profiles: Mapping[Any, Distribution], categories: Iterable[Hashable] | None = None
    ) -> ProfileGraph:
        """Return the graph with an edge between every two profiles: nothing about the source may show."""
        return cls(profiles, combinations(profiles, 2), categories)

    @classmethod
    def chain(cls, profiles: Mapping[Any, Distribution], categories: Iterable[Hashable] | None = None) -> ProfileGraph:
        """Return the graph with an edge between successive profiles, in the order given.

        >>> ProfileGraph.chain({"a": [1, 0], "b": [0.5, 0.5], "c": [0, 1]}).edges
        (('a', 'b'), ('b', 'c'))
        """
        return cls(profiles, pairwise(profiles), categories)

    @classmethod
    def by_attribute(
        cls,
        profiles: Mapping[Any, Distribution],
        attribute: Mapping[Any, Hashable],
        categories: Iterable[Hashable] | None = None,
    ) -> ProfileGraph:
        """Return the graph with an edge between every two profiles of one attribute, such as one job title.

        The attribute itself is then not protected: an observer may learn the job title, not who of that title
        it was.
        """
        missing = [name for name in profiles if name not in attribute]
        if missing:
            raise InvalidValue(f"no attribute for profile {missing[0]!r}; give one for each profile")
        pairs = ((a, b) for a, b in combinations(profiles, 2) if attribute[a] == attribute[b])
        return cls(profiles, pairs, categories)

    @classmethod
    def bernoulli(cls, probabilities: Mapping[Any, object], edges: Iterable[Sequence[Hashable]]) -> ProfileGraph:
        """Return a one-bit graph over the categories 0 and 1 from each profile's probability of 1.

        >>> ProfileGraph.bernoulli({"a": 0.25, "b": 0.5}, [("a", "b")]).exact[0]
        (Fraction(3, 4), Fraction(1, 4))
        """
        ones = {name: fraction_of(name, p) for name, p in probabilities.items()}
        return cls({name: (1 - p, p) for name, p in ones.items()}, edges, (0, 1))

    # Other forms of the same thing.

    @classmethod
    def from_frame(cls, frame: Any, edges: Iterable[Sequence[Hashable]]) -> ProfileGraph:
        """Return the graph of a pandas DataFrame: the index names profiles, the columns categories."""
        if not frame.index.is_unique:
            raise InvalidValue("the index of the frame must name each profile once")
        rows = dict(zip(frame.index.tolist(), frame.to_numpy().tolist(), strict=True))
        return cls(rows, edges, frame.columns.tolist())

    @classmethod
    def from_networkx(cls, graph: Any, attribute: str = "profile") -> ProfileGraph:
        """Return the graph of a networkx graph whose nodes carry a distribution as an attribute."""
        rows = dict(graph.nodes(data=attribute))
        bare = [name for name, row in rows.items() if row is None]
        if bare:
            raise InvalidValue(f"node {bare[0]!r} has no {attribute!r} attribute; give every node one")
        return cls(rows, graph.edges())

    def to_networkx(self) -> Any:
        """Return a networkx graph whose nodes carry their distribution as the attribute ``profile``."""
        import networkx as nx  # noqa: PLC0415 - optional

        graph = nx.Graph()
        graph.add_nodes_from((name, {"profile": dict(row)}) for name, row in self.profiles.items())
        graph.add_edges_from(self.edges)
        return graph

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> ProfileGraph:
        """Read a graph from `to_dict`'s form, or from one with a plain mapping of profiles.

        ``edges`` may also be the word ``complete`` or ``chain``.

        >>> ProfileGraph.from_dict({"profiles": {"a": [0.5, 0.5], "b": [1, 0]}, "edges": "complete"}).edges
        (('a', 'b'),)
        """
        try:
            profiles, edges = state["profiles"], state["edges"]
            if not isinstance(profiles, Mapping):
                profiles = {row["name"]: row["probabilities"] for row in profiles}
        except (KeyError, TypeError, IndexError):
            raise InvalidValue(
                'a profile graph has "profiles" (name: probabilities) and "edges" (pairs, or a word)'
            ) from None
        if isinstance(edges, str):
            builders = {"complete": cls.complete, "chain": cls.chain}
            if edges not in builders:
                raise InvalidValue(f"edges must be a list of pairs, 'complete' or 'chain'. Got {edges!r}")
            return builders[edges](profiles, state.get("categories"))
        return cls(profiles, edges, state.get("categories"))

    def to_dict(self) -> dict[str, object]:
        """Return plain values; a probability that is no float is written as a fraction."""
        rows = [[float(p) if Fraction(float(p)) == p else str(p) for p in row] for row in self.exact]
        return {
            "categories": list(self.categories),
            "profiles": [{"name": n, "probabilities": row} for n, row in zip(self.names, rows, strict=True)],
            "edges": [list(edge) for edge in self.edges],
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the profiles as rows of bars and the edges as arcs beside them; return the axes."""
        from sottovoce.theory.local.plotting import plot_profiles  # noqa: PLC0415 - matplotlib is an extra

        return plot_profiles(self.names, self.categories, self.matrix, self.edge_indices.tolist(), ax)

    # What one asks of a graph.

    @property
    def k(self) -> int:
        """The number of profiles."""
        return len(self.names)

    @property
    def d(self) -> int:
        """The number of categories."""
        return len(self.categories)

    @cached_property
    def matrix(self) -> Floats:
        """The probabilities as floats, a row a profile; read-only."""
        rows = np.array([[float(p) for p in row] for row in self.exact])
        rows.setflags(write=False)
        return rows

    @cached_property
    def edge_indices(self) -> NDArray[np.intp]:
        """The edges as positions in `names`, a row an edge."""
        place = {name: i for i, name in enumerate(self.names)}
        pairs = [(place[a], place[b]) for a, b in self.edges]
        return np.array(pairs, dtype=np.intp).reshape(-1, 2)

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The connected components, as positions in `names`."""
        count, labels = csgraph.connected_components(self._adjacency, directed=False)
        return tuple(tuple(np.flatnonzero(labels == part).tolist()) for part in range(count))

    @property
    def _adjacency(self) -> sparse.csr_array:
        return sparse.csr_array((np.ones(len(self.edges)), self.edge_indices.T), shape=(self.k, self.k))

    def hops(self, first: Hashable, second: Hashable) -> float:
        """Return the number of edges between two profiles; infinite if no path joins them."""
        start, goal = self.index(first), self.index(second)
        return float(csgraph.shortest_path(self._adjacency, directed=False, unweighted=True, indices=start)[goal])

    def index(self, name: Hashable) -> int:
        """Return the position of the profile called `name`."""
        try:
            return self.names.index(name)
        except ValueError:
            raise InvalidValue(f"no profile is called {name!r}; known: {some(self.names)}") from None
