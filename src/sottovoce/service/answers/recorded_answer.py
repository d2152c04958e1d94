"""What every answer is that was paid for: a release, its entry in the ledger, and the level of its intervals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sottovoce.mechanisms.release import Release
from sottovoce.privacy.json_values import json_object, restoring
from sottovoce.privacy.profile import Profile
from sottovoce.service.answers.display import finite_rows
from sottovoce.service.answers.paper_table import PaperTable


@dataclass(frozen=True, eq=False)
class RecordedAnswer(PaperTable):
    """An answer as the ledger has it.

    Attributes
    ----------
    release
        What left the house: what is known, its cost and how it was made.
    entry
        The number of its entry in the ledger; None where none was kept.
    share
        The share of the budget that it cost, where that is known.
    level
        How often the intervals of `table` hold the truth.
    earlier
        The entry that had answered the very same question before this one was paid for; None where none had.
    """

    kind: ClassVar[str] = "an answer"
    """What it is called where it cannot be read."""
    release: Release
    entry: int | None = None
    share: float | None = None
    level: float = 0.95
    earlier: int | None = None

    @property
    def cost(self) -> Profile:
        """What the answer provably cost: a whole privacy curve."""
        return self.release.profile

    def to_dict(self: Any) -> dict[str, object]:
        """Return the answer as plain values, its table among them; `from_dict` reads it back."""
        state = {"question": self.question.describe(), "table": finite_rows(self.rows)}
        state["release"] = self.release.to_dict()
        return state | {"entry": self.entry, "share": self.share, "level": self.level}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read an answer from `to_dict`'s form."""
        with restoring(cls.kind):
            return cls(Release.from_dict(state["release"]), state["entry"], state["share"], float(state["level"]))

    def to_json(self, indent: int | None = None) -> str:
        """Return the answer as JSON."""
        return json.dumps(self.to_dict(), indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read an answer from `to_json`'s form."""
        return cls.from_dict(json_object(text, cls.kind))
