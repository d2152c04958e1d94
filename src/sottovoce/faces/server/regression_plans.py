"""Plans of regressions: how wide each term's interval will be; made of public things, free of cost."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce.faces.server.work_queue import apart
from sottovoce.mechanisms import Mechanism
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts import Column
from sottovoce.records.facts.assumed_distribution import AssumedDistribution, parse_imagined
from sottovoce.service.ledger.hash_chain import canonical

_MOST = 30
"""The most terms of a plan: so many take a processor less than a second, and ten where noise hides columns."""


@dataclass(frozen=True)
class Imagining:
    """What a caller says of the records, in plain values; see `AssumedDistribution`.

    Attributes
    ----------
    columns
        Words of single columns, such as ``ward:C=5%``.
    share, spread, kept, smallest
        As in `AssumedDistribution`.
    """

    columns: tuple[str, ...] = ()
    share: float = 0.5
    spread: float | None = None
    kept: float = 1.0
    smallest: float | None = None

    def of(self, facts: Mapping[str, Column]) -> AssumedDistribution:
        """Return it as it is said of columns with these facts, or raise what is wrong with it."""
        others = {name: value for name, value in vars(self).items() if name != "columns"}
        return parse_imagined(self.columns, facts, **others)


def foreseen(mechanism: Mechanism, target: Promise, n: int, level: float, imagining: Imagining) -> str:
    """Return the plan of a regression as JSON: a text that no caller can change, and the same question finds ready."""
    system: Any = mechanism.system
    if system.dimension > _MOST:
        raise InvalidValue(
            f"a plan here is of at most {_MOST} terms, and this regression has {system.dimension}; "
            "plan it on a machine of yours: sottovoce plan"
        )
    return _foreseen(canonical(mechanism.to_dict()), target, n, level, imagining)


@functools.lru_cache(maxsize=256)
def _foreseen(mechanism: str, target: Promise, n: int, level: float, imagining: Imagining) -> str:
    return str(apart(_foresee, mechanism, target, n, level, imagining))


def _foresee(mechanism: str, target: Promise, n: int, level: float, imagining: Imagining) -> str:
    planned = importlib.import_module("sottovoce.inference.regression.regression_plan")  # the room needs an extra
    built: Any = Mechanism.from_dict(json.loads(mechanism))
    said = imagining.of(built.system.facts)
    try:
        return json.dumps(planned.plan_looks(built, target, n, level, said).to_dict(), allow_nan=False)
    except SottovoceError:
        raise
    except (ArithmeticError, ValueError, RuntimeError):
        raise InvalidValue("no plan can be made of this regression: it is beyond what can be computed") from None
