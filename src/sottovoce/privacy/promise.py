"""What every promise can do: be written and read, be counted as a budget, and say what it leaves to a guess."""

from __future__ import annotations

import functools
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, ClassVar, Self

from sottovoce.privacy.errors import IncompatibleNotions, InvalidPromise, InvalidValue
from sottovoce.privacy.json_values import json_object
from sottovoce.privacy.numbers import real, shown
from sottovoce.privacy.relation import REPLACE_ONE, Relation, shown_with_relation

if TYPE_CHECKING:
    from sottovoce.privacy.budget_units import Counting
    from sottovoce.privacy.profile import Profile

_RELATION = re.compile(r"^(.*?)\s+([^\W\d].*?)\s*$", re.DOTALL)
"""Numbers, then a relation in words."""


@dataclass(frozen=True)
class Promise(ABC):
    """A privacy statement one can ask for; use one of its kinds.

    Every kind reads from and writes to the command-line form (``approx:1,1e-6``, ``approx:1,1e-6 add-remove``) and
    JSON. Its `relation` says which data sets are neighbours: whose presence, or whose record, it hides.

    >>> from sottovoce.privacy import ADD_REMOVE, PureDP
    >>> print(PureDP(1.0).under(ADD_REMOVE))
    pure:1 add-remove
    """

    word: ClassVar[str]
    _kinds: ClassVar[dict[str, type[Promise]]] = {}
    relation: Relation = field(default=REPLACE_ONE, kw_only=True)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        Promise._kinds[cls.word] = cls
        cls.__repr__ = Promise.__repr__  # type: ignore[method-assign]  # else each dataclass makes its own

    def __repr__(self) -> str:
        return shown_with_relation(self)

    def under(self, relation: Relation) -> Self:
        """Return the promise with the same numbers about other neighbours: another promise, not an implied one."""
        return self if relation == self.relation else replace(self, relation=relation)

    @classmethod
    @functools.cache
    def numbers(cls) -> tuple[str, ...]:
        """Return what its numbers are called, in order."""
        return tuple(f.name for f in fields(cls) if f.name != "relation")

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Refuse to make a promise of no kind, in words."""
        if cls is Promise:
            raise InvalidPromise(f"Promise itself promises nothing; use one of {_names()}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name in self.numbers():
            try:
                object.__setattr__(self, name, real(name, getattr(self, name)))
            except InvalidValue as error:
                raise InvalidPromise(str(error)) from None
        if not isinstance(self.relation, Relation):
            raise InvalidPromise(f"a relation is REPLACE_ONE, ADD_REMOVE or a Relation. Got {shown(self.relation)}")

    @abstractmethod
    def _excess(self, profile: Profile) -> float:
        """Return how far a profile is over the promise, in the promise's own number; <= 0 keeps it."""

    @abstractmethod
    def _counting(self, order: object = None) -> Counting:
        """Return what releases cost a budget of this promise, and how much of it there is; see `PrivacyFilter`."""

    def _simplest(self) -> Promise:
        """Return the same promise, of the simplest kind that says it."""
        return self

    def worst(self) -> Profile:
        """Return the profile of all that keeps the promise, as little private as it allows."""
        raise IncompatibleNotions(f"no curve goes with {self}; ask what it leaves to a guess instead")

    def _leaves(self, chance: float) -> float | None:
        """Return the largest chance left to a guess which succeeds with `chance` beforehand; None: that of `worst`."""
        return None

    def _tells(self) -> float | None:
        """Return the largest advantage over chance left to a guess between two neighbours; None: that of `worst`."""
        return None

    def __str__(self) -> str:
        return self._written(_rounded)

    def exact(self) -> str:
        """Return the promise as `parse_promise` reads it back without loss; `str` rounds towards less privacy."""
        return self._written(lambda _, value: repr(value))

    def _written(self, shown: Callable[[str, float], str]) -> str:
        numbers = ",".join(shown(name, getattr(self, name)) for name in self.numbers())
        return f"{self.word}:{numbers}" + ("" if self.relation == REPLACE_ONE else f" {self.relation}")

    def to_dict(self) -> dict[str, object]:
        """Return the promise as a plain dictionary; `from_dict` reads it back."""
        state = {"promise": self.word} | {name: getattr(self, name) for name in self.numbers()}
        return state if self.relation == REPLACE_ONE else state | {"relation": str(self.relation)}

    def to_json(self) -> str:
        """Return the promise as JSON; `from_json` reads it back."""
        return json.dumps(self.to_dict())

    @staticmethod
    def from_dict(state: Mapping[str, object]) -> Promise:
        """Read a promise from `to_dict`'s form."""
        if not isinstance(state, Mapping):
            raise InvalidPromise(f"a promise is read from a dictionary. Got {shown(state)}")
        numbers = dict(state)
        word = numbers.pop("promise", None)
        kind = Promise._kinds.get(word) if isinstance(word, str) else None
        if kind is None:
            raise InvalidPromise(f"no promise is called {word!r}; use one of {_names()}")
        relation = _relation(numbers.pop("relation", str(REPLACE_ONE)))
        wanted = set(kind.numbers())
        if set(numbers) != wanted:
            raise InvalidPromise(f"{kind.__name__} needs {sorted(wanted)}. Got {sorted(map(str, numbers))}")
        return kind(**numbers, relation=relation)

    @staticmethod
    def from_json(text: str) -> Promise:
        """Read a promise from `to_json`'s form."""
        return Promise.from_dict(json_object(text, "a promise", InvalidPromise))


_TIGHTER = ("order", "baseline")
"""The larger these are, the more is promised; of all other numbers, the less."""


def _rounded(name: str, value: float) -> str:
    """Return a number in six digits, rounded towards less privacy where they are off by a part in 10¹¹ or more.

    (Shares of a budget are a hair less than they say, by a part in 10¹²; `exact` keeps every bit.)
    """
    short = format(value, "g")
    if math.isclose(float(short), value, rel_tol=1e-11):
        return short
    context = Context(prec=6, rounding=ROUND_FLOOR if name in _TIGHTER else ROUND_CEILING)
    return format(float(context.create_decimal(Decimal(value))), "g")


def _names() -> str:
    return ", ".join(f"{kind.word}:{','.join(kind.numbers())}" for kind in Promise._kinds.values())


def _relation(text: object) -> Relation:
    try:
        return Relation.parse(text)
    except InvalidValue as error:
        raise InvalidPromise(str(error)) from None


def parse_promise(text: str) -> Promise:
    """Read a promise from its command-line form.

    >>> parse_promise("approx:1,1e-6")
    ApproxDP(epsilon=1.0, delta=1e-06)
    >>> parse_promise("renyi:15,0.1")
    RenyiDP(order=15.0, epsilon=0.1)
    >>> parse_promise("pure:1 add-remove of a person")
    PureDP(epsilon=1.0, relation=Relation(kind='add-remove', unit='person'))
    """
    if not isinstance(text, str):
        raise InvalidPromise(f"a promise is read from text such as 'approx:1,1e-6'. Got {shown(text)}")
    word, colon, remainder = text.strip().partition(":")
    kind = Promise._kinds.get(word.strip().lower())
    if kind is None or not colon:
        raise InvalidPromise(f"cannot read the promise {text!r}; write one of {_names()}")
    said = _RELATION.match(remainder)
    remainder, relation = (remainder, REPLACE_ONE) if said is None else (said[1], _relation(said[2]))
    try:
        numbers = [float(part) for part in remainder.split(",")]
    except ValueError:
        raise InvalidPromise(f"cannot read the numbers of {text!r}; write one of {_names()}") from None
    names = kind.numbers()
    if len(numbers) != len(names):
        raise InvalidPromise(f"{word} takes {len(names)} number(s): {kind.word}:{','.join(names)}. Got {text!r}")
    return kind(**dict(zip(names, numbers, strict=True)), relation=relation)
