"""The questions that Table 1 of some columns is made of."""

from __future__ import annotations

from collections.abc import Sequence

from sottovoce.inference.cells.groups import Groups
from sottovoce.inference.cells.questions import Question, make_question
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Category, Cells, Count, Facts, Flag, Number
from sottovoce.records.facts.column_names import quoted

QUARTILES = (0.25, 0.5, 0.75)


def described_words(columns: Sequence[str], by: Sequence[str], where: str | None) -> str:
    """Return what is described, in one line."""
    text = f"description of {', '.join(map(quoted, columns))}"
    text += f" by {', '.join(by)}" if by else ""
    return text + (f" where {where}" if where is not None else "")


def table_questions(
    columns: tuple[str, ...], by: tuple[str, ...], facts: Facts, where: str | None = None
) -> list[Question]:
    """Return the questions that a table is made of: counts of values with the missing ones, means, and quartiles.

    >>> facts = Facts(age=Number(0, 110), smoker=Flag(), ward=Category(["A", "B"]))
    >>> [question.describe() for question in table_questions(("age", "smoker"), ("ward",), facts)]
    ['mean of age by ward', 'quantiles 0.25, 0.5, 0.75 of age by ward', 'counts of ward, smoker', 'counts of ward']
    """
    if not columns:
        raise InvalidValue("name the columns to describe, such as ['age', 'smoker']")
    if len(set(columns)) < len(columns):
        raise InvalidValue(f"a description names a column once. Got {', '.join(columns)}")
    groups = Groups.named(by, facts)
    cuts = {axis.name: list(axis.marks) if axis.numeric else ... for axis in groups.axes}
    result: list[Question] = []
    for name in columns:
        column = facts[name]
        if name in cuts:
            raise InvalidValue(f"{name!r} is what the description is grouped by; leave it out of the columns")
        if isinstance(column, Number | Count):
            result.append(make_question("mean", (name,), facts, by=by, where=where))
            result.append(make_question("quantiles", (name,), facts, by=by, at=QUARTILES, where=where))
        elif isinstance(column, Flag | Category):
            cells = Cells(facts, {**cuts, name: ...}, "cell")
            result.append(make_question("counts", cells.names, facts, cells=cells, where=where))
        else:
            raise InvalidValue(f"{name!r} is a {column.word}; numbers, flags and categories are described")
    if by and any(question.verb == "mean" and not question.averaged for question in result):
        result.append(make_question("counts", groups.names, facts, cells=Cells(facts, cuts), where=where))
    # The first tells the groups, which counts of cells do not.
    return sorted(result, key=lambda question: question.verb == "counts")
