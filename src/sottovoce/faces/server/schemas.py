"""What goes over the wire, as the OpenAPI document describes it."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from sottovoce.faces.server.queries.parsing import LONGEST as LONGEST_QUERY
from sottovoce.faces.server.questions import ServerQuestion
from sottovoce.faces.server.verbs import VerbQuestion
from sottovoce.mechanisms.conjugate.named_systems import SYSTEMS, column_systems
from sottovoce.mechanisms.mechanism_choice import CONJUGATE
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.shares import read_share
from sottovoce.records.facts.row_parser import LONGEST
from sottovoce.service.answers.catalogue import CATALOGUE

__all__ = [
    "AskBody",
    "Level",
    "PlanBody",
    "Rows",
    "Spend",
    "VerbBody",
    "in_words",
]

MOST = 1e6
MOST_ROWS = 100
"""The most rows of which an answer says what to expect."""
Real = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
_STRICT = ConfigDict(strict=True, extra="forbid")


def _systems(schema: dict[str, Any]) -> None:
    """Write into the schema what the registered systems take."""
    kinds = column_systems()
    schema["properties"]["kind"] |= {"enum": list(SYSTEMS), "title": "Kind"}
    for kind in kinds.values():
        for name, setting in kind.settings.items():
            known = schema["properties"].setdefault(name, {"anyOf": []})["anyOf"]
            known += [item for item in setting.schema.get("anyOf", [setting.schema]) if item not in known]
    tables = {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}
    schema["properties"]["tables"] = {"title": "Columns that count tables cross", **tables}


class SystemBody(BaseModel):
    """A system's kind and what it takes of a question. Bounds and categories are the administrator's."""

    model_config = ConfigDict(strict=True, extra="allow", json_schema_extra=_systems)
    kind: Annotated[str, Field(max_length=100)]


class PlanBody(BaseModel):
    """What to plan for."""

    model_config = _STRICT
    system: SystemBody
    target: Annotated[str, Field(max_length=100, examples=["approx:0.5,1e-6", "pure:0.5"])]
    column: Annotated[str, Field(max_length=200)] | None = None
    where: Annotated[str, Field(max_length=2000, examples=["age > 40 and region in ('N', 'S')"])] | None = None
    mean: Real | Annotated[list[Real], Field(min_length=1, max_length=64)] | None = None

    def question(self) -> ServerQuestion:
        """Return the question to plan for."""
        settings = self.system.model_dump(exclude_none=True)
        return ServerQuestion(system=settings, target=self.target, column=self.column, where=self.where)


class AskBody(BaseModel):
    """A question. Each answer is charged before any record is read."""

    model_config = _STRICT
    system: SystemBody
    target: Annotated[str, Field(max_length=100, examples=["approx:0.5,1e-6", "pure:0.5"])]
    mechanism: Annotated[str, Field(max_length=100, examples=list(CONJUGATE))] | None = None
    column: Annotated[str, Field(max_length=200)] | None = None
    where: Annotated[str, Field(max_length=2000)] | None = None
    missing: Real | bool | Annotated[str, Field(max_length=200)] | None = None
    query: Annotated[str, Field(max_length=LONGEST_QUERY, examples=["theta", "probability(x > 3)"])] = "theta"
    draws: Annotated[int, Field(ge=1, le=100_000)] = 1
    purpose: Annotated[str, Field(max_length=300, examples=["The annual report"])] | None = None

    def question(self) -> ServerQuestion:
        """Return the question asked."""
        return ServerQuestion(**(self.model_dump() | {"system": self.system.model_dump(exclude_none=True)}))


def _verbs(schema: dict[str, Any]) -> None:
    """Write into the schema what the registered verbs take."""
    schema["properties"]["verb"] |= {"enum": list(CATALOGUE), "title": "Verb"}
    for word in CATALOGUE:
        for name, item in CATALOGUE[word].schema()["properties"].items():
            known = schema["properties"].setdefault(name, item)
            if known is not item and known != item:
                named = {key: item[key] for key in ("type", "maxLength", "enum") if key in item}
                known |= {key: value for key, value in named.items() if key not in known}


def _spend(given: Any) -> Any:
    """Return what may be a share or a promise, or say what to say: null is neither, and so is what is not finite."""
    number = isinstance(given, int | float) and not isinstance(given, bool) and abs(given) <= sys.float_info.max
    if not number and not isinstance(given, str):
        raise InvalidValue(
            'must be a share of your budget such as 0.05 or "5%", or a promise such as "approx:0.1,1e-6"; '
            f"leave it out for 5%. Got {json.dumps(given)[:80]}"
        )
    return given


def _row(given: Any) -> Any:
    """Return what may be a row to predict for, or say what to say."""
    if not isinstance(given, str | dict):
        raise InvalidValue(
            'must be a row in words, such as "age=70, ward=Surgery", or its values by name. '
            f"Got {json.dumps(given)[:80]}"
        )
    return given


Row = Annotated[Annotated[str, Field(max_length=LONGEST)] | dict[str, Any], BeforeValidator(_row)]
Rows = Annotated[list[Row], Field(max_length=MOST_ROWS, examples=[["age=70, ward=Surgery"]])]
"""Rows to predict for, in words or by name."""

Words = Annotated[str, Field(max_length=100, examples=["5%"])]
"""A share as people write it."""


def in_words(number: Any) -> BeforeValidator:
    """Take a share as such a number, or in words."""

    def read(given: Any) -> Any:
        return read_share("a share", given) if isinstance(given, str) else given

    return BeforeValidator(read, json_schema_input_type=number | Words)


_Level = Annotated[float, Field(gt=0, lt=1)]
Level = Annotated[_Level, in_words(_Level), Field(examples=[0.8, "80%"])]
"""How often intervals hold the truth."""

Spend = Annotated[
    Annotated[float, Field(allow_inf_nan=False)] | Annotated[str, Field(max_length=100)],
    BeforeValidator(_spend),
    Field(examples=[0.05, "5%", "approx:0.1,1e-6"]),
]
"""What an answer may cost."""


class VerbBody(BaseModel):
    """A question by verb: the verb, what it takes, and the share of your budget that the answer may cost."""

    model_config = ConfigDict(strict=True, extra="allow", json_schema_extra=_verbs)
    verb: Annotated[str, Field(max_length=100)]
    spend: Spend = 0.05
    level: Level = 0.95
    table: bool = True
    purpose: Annotated[str, Field(max_length=300, examples=["The annual report"])] | None = None
    predict: Rows = []
    again: bool = False

    def question(self) -> VerbQuestion:
        """Return the question asked."""
        shown = (self.spend, self.level, self.table, self.purpose, self.predict, self.again)
        return VerbQuestion(self.verb, self.model_extra or {}, *shown)
