"""An order: a question that makes sense, as a curator takes it."""

from __future__ import annotations

import contextlib
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sottovoce.faces.server.config import DatasetConfig
from sottovoce.mechanisms import Mechanism, Release
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Budget, Entry
from sottovoce.service.ledger.hash_chain import canonical


@dataclass(frozen=True)
class Order:
    """What the curator is to be asked: calibrated, checked, and no record was read for it.

    Attributes
    ----------
    mechanism, columns, where, missing, draws, purpose
        As in `Curator.release`.
    about
        More of the question, in plain values, to be recorded with it.
    then
        What is done to the release before it is recorded.
    question
        What is asked by verb: an earlier answer to the very same is free. None of a model and a mechanism.
    """

    mechanism: Mechanism
    columns: str | list[str] | None = None
    where: str | None = None
    missing: Any = None
    draws: int = 1
    purpose: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    then: Callable[[Release], Release] | None = None
    question: Any = None


class Asking(ABC):
    """A question of any kind that the service takes, in plain values."""

    @abstractmethod
    def order(self, config: DatasetConfig, curator: Curator, part: Budget, most_draws: int) -> Order:
        """Return the order, or raise what is wrong with the question. Reads no record."""

    @abstractmethod
    def told(self, release: Release, entry: Entry, part: Budget) -> dict[str, Any]:
        """Return what is said of the answer beside the release, a function of the release alone."""

    @functools.cached_property
    def text(self) -> str | None:
        """The question as one text; None where it holds more than plain values."""
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            return canonical(vars(self))
        return None
