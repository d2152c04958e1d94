"""The form for questions by verb: made from the catalogue and the facts, and read back into a question."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sottovoce.faces.server.config import DatasetConfig
from sottovoce.faces.server.page.forms import number_in
from sottovoce.faces.server.regression_plans import Imagining
from sottovoce.faces.server.verbs import VerbQuestion, verbs_of
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.shares import read_share
from sottovoce.records.facts import Category, Column, Count, Day, Flag, Number
from sottovoce.records.facts.assumed_distribution import split_imagined
from sottovoce.records.facts.encodings import Encoding, Scale, levels_of
from sottovoce.service.answers.arguments import Argument
from sottovoce.service.answers.catalogue import CATALOGUE, Verb
from sottovoce.service.answers.question_parser import parse_groups

__all__ = ["column_words", "first_answers", "form_fields", "imagining", "row_fields", "row_of", "verb_question"]

_AT = "at:"
"""How the fields of a row to predict for begin."""
_FIRST = ("formula", "column", "columns", "by", "where")
"""Arguments that every visitor sees; the others are under `More`."""


def form_fields(config: DatasetConfig) -> dict[str, Any]:
    """Return the verbs there are and the fields of the form, each with the verbs it goes with."""
    facts, verbs = config.facts, verbs_of(config)
    fields: dict[str, dict[str, Any]] = {}
    for verb in verbs:
        for argument in verb.arguments:
            if argument.name == "where" and not config.conditions:
                continue
            field = fields.setdefault(argument.name, _field(argument))
            field["verbs"].append(verb.word)
            if not argument.needed:
                field["optional"].append(verb.word)
            # Verbs may mean different things by one name.
            field["said"].setdefault((argument.label, argument.help), []).append(verb.word)
            for name in argument.fitting(facts) if argument.columns else ():
                field["options"].setdefault(name, {"title": config.columns[name].title, "verbs": []})
                field["options"][name]["verbs"].append(verb.word)
    shown = {"first": [f for n, f in fields.items() if n in _FIRST], "more": []}
    shown["more"] = [field for name, field in fields.items() if name not in _FIRST]
    shown["first"].sort(key=lambda field: _FIRST.index(field["name"]))
    words = [{"word": verb.word, "title": verb.title} for verb in verbs]
    return shown | {"verbs": words, "example": _example(facts), "bands": _bands(facts)}


def _field(argument: Argument) -> dict[str, Any]:
    shown = {"name": argument.name, "kind": argument.kind, "label": argument.label, "help": argument.help}
    return shown | {
        "choices": argument.choices,
        "bands": argument.bands,
        "verbs": [],
        "optional": [],
        "said": {},
        "options": {},
    }


def _example(facts: Mapping[str, Column]) -> str:
    """Return a condition on a column of this table, as an example of one."""
    for name, column in facts.items():
        quoted = name if name.isidentifier() else f"`{name}`"
        if isinstance(column, Number):
            return f"{quoted} >= {(column.low + column.high) / 2:g}"
        if isinstance(column, Category) and isinstance(column.categories[0], str):
            return f"{quoted} = '{column.categories[0]}'"
    return ""


def _bands(facts: Mapping[str, Column]) -> str:
    """Return bands of one column of this table, or of two, as an example."""
    numbers = {name: column for name, column in facts.items() if isinstance(column, Number | Count)}
    sizes = {name: min(4, column.high + 1) if isinstance(column, Count) else 4 for name, column in numbers.items()}
    return ", ".join([f"{name}: {size} bands" for name, size in sizes.items()][:2])


def column_words(column: Column) -> str:
    """Return what is public of a column, in words.

    >>> column_words(Number(0, 110)), column_words(Category(["A", "B"]))
    ('a number from 0 to 110', 'one of A, B')
    """
    match column:
        case Number(low, high):
            return f"a number from {low:,.12g} to {high:,.12g}"
        case Count(high):
            return f"a count from 0 to {high:,}"
        case Category(categories):
            subset = ", ".join(map(str, categories[:12]))
            return f"one of {subset}" + (f" and {len(categories) - 12} more" if len(categories) > 12 else "")
        case Flag():
            return "yes or no"
        case Day(first, last):
            return f"a day from {first} to {last}"
    return f"a {column.word}"


def first_answers(config: DatasetConfig) -> dict[str, str]:
    """Return what the form says before anyone typed: the first verb of the first column, and a modest share."""
    verbs = verbs_of(config)
    return {"verb": verbs[0].word if verbs else "", "spend": "5", "level": "95"}


def verb_question(form: Mapping[str, str]) -> VerbQuestion:
    """Return the question in a form, or raise `InvalidValue` naming the field that makes no sense.

    Of several boxes that may be ticked, each is a field of its own, such as ``by:ward``.
    """
    verb: Verb = CATALOGUE[form.get("verb", "")]
    arguments = {item.name: value for item in verb.arguments if (value := _value(item, form)) is not None}
    return VerbQuestion(
        verb.word,
        arguments,
        spend=_percent("the share of your budget", form.get("spend", "")),
        level=level_of(form),
        purpose=form.get("purpose", "").strip() or None,
    )


def level_of(form: Mapping[str, str]) -> float:
    """Return the level of the intervals that a form asks for."""
    return _percent("the certainty", form.get("level") or "95")


def imagining(form: Mapping[str, str]) -> Imagining:
    """Return what a form says of the records, for a plan."""
    kept = form.get("kept", "").strip()
    columns = tuple(split_imagined(form.get("imagine", "")))
    return Imagining(columns, kept=_percent("the part that the condition keeps", kept) if kept else 1.0)


def row_fields(encoding: Encoding, titles: Mapping[str, str], given: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the fields of a row to predict for: what was given, else the first level, or the middle of the bounds."""
    result = []
    for place, (name, column) in enumerate(zip(encoding.names, encoding.columns, strict=True)):
        levels = ["no", "yes"] if isinstance(column, Flag) else [str(level) for level in levels_of(column) or ()]
        usual = levels[0] if levels else _middle(encoding.scale(place), whole=isinstance(column, Count))
        field = {"name": f"{_AT}{name}", "title": titles.get(name, name), "levels": levels}
        result.append(field | {"value": given.get(name, usual), "words": column_words(column)})
    return result


def _middle(scale: Scale, *, whole: bool) -> str:
    middle = scale.low + (scale.high - scale.low) / 2
    return f"{math.floor(middle) if whole else middle:.6g}"


def row_of(form: Mapping[str, str]) -> dict[str, str] | None:
    """Return the row that a form of `row_fields` asks to predict for; None where it asks for none."""
    given = {name.removeprefix(_AT): text.strip() for name, text in form.items() if name.startswith(_AT)}
    return given if "predict" in form else None


def _value(argument: Argument, form: Mapping[str, str]) -> Any:
    if argument.kind == "columns":
        prefix = f"{argument.name}:"
        ticked = [name.removeprefix(prefix) for name in form if name.startswith(prefix)]
        said = form.get(argument.name, "").strip() if argument.bands else ""
        return [*ticked, *(parse_groups(said) if said else ())] or None
    text = form.get(argument.name, "").strip()
    if not text:
        return None
    if argument.kind == "flag":
        return text if text in argument.choices else True
    if argument.kind in ("number", "numbers", "whole"):
        numbers = [number_in(argument.label, part) for part in text.split(",")]
        if argument.kind == "whole" and numbers[0].is_integer():
            return int(numbers[0])
        return numbers if argument.kind == "numbers" else numbers[0]
    return text


def _percent(name: str, text: str) -> float:
    bare = text.strip().removesuffix("%")
    number_in(name, bare)  # which says what is wrong with it in the words of a form, where no sign is needed
    share = read_share(name, f"{bare}%")
    if not 0 < share <= 1:
        raise InvalidValue(f"{name} lies above 0 and at most at 100 %. Got {100 * share:g}")
    return share
