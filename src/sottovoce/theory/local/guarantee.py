"""What a profile mechanism promises, and the only ways two such promises add up to one."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from sottovoce.privacy.errors import IncompatibleNotions, InvalidValue
from sottovoce.privacy.numbers import real
from sottovoce.theory.local.graph import ProfileGraph

__all__ = ["ProfilePrivacy", "independent_profiles", "independent_samples", "same_record"]


@dataclass(frozen=True)
class ProfilePrivacy:
    r"""(G, ε)-profile-based privacy: across an edge, no output is more than e^ε times likelier under one end.

    .. math:: \Pr[A(X, P_i) = y \mid X \sim P_i] \le e^\varepsilon \Pr[A(X, P_j) = y \mid X \sim P_j]

    (Geumlek 2020, Definition 25.) It hides the distribution a record came from, not the record, and only from an
    observer who knows nothing else of the record. It is no differential privacy of the central kind and never composes
    with a profile of that kind. Processing an output without the data keeps it (Observation 7).

    Parameters
    ----------
    graph
        The profile graph.
    epsilon
        The bound on the log-ratio across an edge, per record.
    local
        True where the mechanism is ε-locally private as well, which protects the record itself (Theorem 26).

    Examples
    --------
    >>> graph = ProfileGraph.bernoulli({"a": 0.4, "b": 0.6}, [("a", "b")])
    >>> once = ProfilePrivacy(graph, 0.5)
    >>> independent_samples([once] * 3).epsilon, independent_profiles([once] * 3).epsilon
    (1.5, 0.5)
    """

    graph: ProfileGraph
    epsilon: float
    local: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.graph, ProfileGraph):
            raise InvalidValue(f"graph must be a ProfileGraph. Got {self.graph!r}")
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))

    def between(self, first: Hashable, second: Hashable) -> float:
        """Return the ε between two profiles: ε for each edge of the shortest path, infinite without a path.

        A locally private mechanism keeps ε between any two.
        """
        hops = self.graph.hops(first, second)
        if self.local:
            return self.epsilon if hops else 0.0
        return _up(Fraction(self.epsilon) * int(hops)) if math.isfinite(hops) else math.inf

    def to_dict(self) -> dict[str, object]:
        """Return the statement as plain values."""
        return {
            "notion": "profile-based local privacy",
            "epsilon": self.epsilon,
            "local": self.local,
            "profiles": self.graph.k,
            "edges": len(self.graph.edges),
        }

    def _never(self, other: object) -> NoReturn:
        raise IncompatibleNotions(
            "profile-based privacy has no '+' or '*': say independent_samples(...) for independent records "
            "of one profile, independent_profiles(...) for independently chosen profiles; it never adds to a "
            f"central profile. Got {other!r}"
        )

    __add__ = __radd__ = __mul__ = __rmul__ = _never


def independent_samples(guarantees: Iterable[ProfilePrivacy]) -> ProfilePrivacy:
    """Compose releases of *independent* records of one and the same profile: ε's add (Observation 8)."""
    parts = _of_one_graph(guarantees)
    total = sum((Fraction(g.epsilon) for g in parts), Fraction(0))
    return ProfilePrivacy(parts[0].graph, _up(total), all(g.local for g in parts))


def independent_profiles(guarantees: Iterable[ProfilePrivacy]) -> ProfilePrivacy:
    """Compose releases whose profiles were chosen *independently*: the largest ε (Observation 9).

    The mechanisms must have been fixed beforehand; correlated choices, such as people who come in pairs, have no
    composition result.
    """
    parts = _of_one_graph(guarantees)
    return ProfilePrivacy(parts[0].graph, max(g.epsilon for g in parts), all(g.local for g in parts))


def same_record(guarantees: Iterable[ProfilePrivacy]) -> ProfilePrivacy:
    """Compose several releases of one record: ε's add if each is locally private, else nothing is known.

    Observation 13: the second release of a record may undo the first. Locally private mechanisms do not rely on how the
    record was drawn, so theirs add up and Theorem 26 turns the sum into this notion.
    """
    parts = _of_one_graph(guarantees)
    if len(parts) > 1 and not all(g.local for g in parts):
        raise IncompatibleNotions(
            "releases of the same record do not compose under profile-based privacy (Geumlek 2020, "
            "Observation 13); release each record once, or use locally private mechanisms such as "
            "RandomizedResponse"
        )
    return independent_samples(parts)


def _of_one_graph(guarantees: Iterable[ProfilePrivacy]) -> list[ProfilePrivacy]:
    parts = list(guarantees)
    if not parts:
        raise InvalidValue("nothing to compose: give at least one guarantee")
    for part in parts:
        if not isinstance(part, ProfilePrivacy):
            raise IncompatibleNotions(f"profile-based privacy composes with its own kind only. Got {part!r}")
        if part.graph != parts[0].graph:
            raise IncompatibleNotions("guarantees about different profile graphs do not compose into one statement")
    return parts


def _up(value: Fraction) -> float:
    """Return the least float at or above `value`."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def checked_epsilon(epsilon: float) -> float:
    """Return ε as a float, or raise `InvalidValue`."""
    return real("epsilon", epsilon)
