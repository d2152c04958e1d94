"""Relations: which two data sets are neighbours, and so what a promise hides."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from sottovoce.privacy.errors import IncompatibleNotions, InvalidValue
from sottovoce.privacy.numbers import shown

_PERSON = " of a person"


@dataclass(frozen=True)
class Relation:
    """Which two data sets are neighbours: what changes between them, and how.

    Parameters
    ----------
    kind
        ``"replace-one"``: one is replaced by another, so their number stays what it is and is public. Or
        ``"add-remove"``: one is there or is not, so even their number is a secret.
    unit
        ``"record"``, or ``"person"``: everything that the data hold of one person.

    Examples
    --------
    >>> str(ADD_REMOVE), str(REPLACE_ONE.of_person())
    ('add-remove', 'replace-one of a person')
    >>> Relation.parse("add-remove of a person") == ADD_REMOVE.of_person()
    True
    >>> print(ADD_REMOVE.sentence())
    one record there or not there at all: even how many records there are is a secret
    """

    kinds: ClassVar[tuple[str, ...]] = ("replace-one", "add-remove")
    units: ClassVar[tuple[str, ...]] = ("record", "person")
    kind: str = "replace-one"
    unit: str = "record"

    def __post_init__(self) -> None:
        if self.kind not in self.kinds or self.unit not in self.units:
            raise InvalidValue(
                f"a relation is one of {', '.join(self.kinds)}, of a {' or a '.join(self.units)}. "
                f"Got {shown(self.kind)} of a {shown(self.unit)}"
            )

    @property
    def hides_n(self) -> bool:
        """Whether the number of records (or of persons) is a secret."""
        return self.kind == "add-remove"

    def of_person(self) -> Relation:
        """Return the same relation between data sets that differ in everything of one person."""
        return replace(self, unit="person")

    def sentence(self) -> str:
        """Return what differs between neighbours, in words."""
        plural = f"{self.unit}s"
        what = "one record" if self.unit == "record" else "everything of one person"
        if self.hides_n:
            return f"{what} there or not there at all: even how many {plural} there are is a secret"
        other = "by another" if self.unit == "record" else "by that of another"
        return f"{what} replaced {other}: how many {plural} there are is public"

    def __str__(self) -> str:
        return self.kind + (_PERSON if self.unit == "person" else "")

    @staticmethod
    def parse(text: object) -> Relation:
        """Read a relation from its text: ``add-remove``, ``replace-one of a person``."""
        if not isinstance(text, str):
            raise InvalidValue(f"a relation is read from text such as 'add-remove of a person'. Got {shown(text)}")
        words = " ".join(text.lower().replace("/", "-").split())
        person = words.endswith(_PERSON)
        kind = words.removesuffix(_PERSON).removesuffix(" of a record").strip()
        if kind == "of a person":
            kind, person = "replace-one", True
        if kind not in Relation.kinds:
            raise InvalidValue(
                f"cannot read the relation {text!r}; write replace-one or add-remove, and 'of a person' after it "
                "where everything of a person is protected at once"
            )
        return Relation(kind, "person" if person else "record")


REPLACE_ONE = Relation()
"""One record replaced by another; their number is public."""
ADD_REMOVE = Relation("add-remove")
"""One record added or removed; their number is a secret."""


def check_same(first: Relation, second: Relation, what: str) -> None:
    """Raise `IncompatibleNotions` unless two claims speak of the same neighbours."""
    if first != second:
        raise IncompatibleNotions(f"{what}: one speaks of {first}, the other of {second}")


def shown_with_relation(value: Any) -> str:
    """Return the text of a dataclass as Python writes it, its relation last, and only where it is not the usual one."""
    result = {f.name: getattr(value, f.name) for f in fields(value) if f.repr}
    relation = result.pop("relation", REPLACE_ONE)
    result |= {} if relation == REPLACE_ONE else {"relation": relation}
    return f"{type(value).__qualname__}({', '.join(f'{name}={part!r}' for name, part in result.items())})"
