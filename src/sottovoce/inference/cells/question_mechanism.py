"""Mechanisms that answer a question with noise on the integers: what those of this room have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.readings import HeldRecords, ReadableRecords
from sottovoce.records.readings.in_memory_records import RecordsOfN

MOST = 2.0**29
"""The most noise, beside one record: sums and noise together stay far inside 64 bits."""
IMAGINED = 8
"""Records of an imagined table where n is a secret."""


class QuestionMechanism(Mechanism):
    """A mechanism of a question, whose noise is s beside one record."""

    forecasts: ClassVar[bool] = False
    free_samples: ClassVar[bool] = True
    system: Question
    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "scale", float(self.scale))
        if not 0 < self.scale <= MOST:
            raise InvalidValue(f"scale must be > 0 and at most 2**29. Got {self.scale!r}")


class AdaptiveQuestion(QuestionMechanism):
    """A mechanism that looks at a table several times: what earlier looks released says where the next one is."""

    def see(self, records: Any) -> RecordsOfN:
        """Return n records that can be looked at again, or raise `InvalidData`."""
        if isinstance(records, RecordsOfN):
            return records
        if not isinstance(records, ReadableRecords):
            if self.system.where is not None:
                raise InvalidValue("a condition is read in a table; ask it through a curator")
            if self.system.facts.person is not None and not self.reading.persons:
                raise InvalidValue("one row a person is chosen in a table; ask through a curator")
            records = HeldRecords.named(records, self.system.columns)
        return RecordsOfN(records, self.n)

    def _with_and_without(self, first: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[HeldRecords, HeldRecords]:
        """Return a table of records alike but the first, and one in which it is like the others, or missing."""
        others = [other] * (IMAGINED if self.n is None else max(self.n - 1, 0))
        both = ([first, *others], others if self.n is None else [other, *others])
        longer, shorter = (HeldRecords(tuple(self.reading.arranged(records))) for records in both)
        return longer, shorter
