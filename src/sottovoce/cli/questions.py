"""What the demo asks, and what it is answered."""

from __future__ import annotations

from dataclasses import dataclass

from sottovoce.mechanisms import Release
from sottovoce.privacy.promises import Promise
from sottovoce.readings import Statistics
from sottovoce.systems import System

__all__ = ["Answer", "Question"]


@dataclass(frozen=True)
class Question:
    """One thing to publish of the collisions."""

    title: str
    system: System
    mechanism: str
    target: Promise
    column: str | None = None
    where: str | None = None


@dataclass(frozen=True)
class Answer:
    """A question with its release, or with the refusal; and the truth, which a real curator never prints."""

    question: Question
    cost: float
    release: Release | None
    refusal: str
    truth: Statistics | None
