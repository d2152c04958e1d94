"""The page of a data set: the answer first, then the form by verb, then what was asked before."""

from __future__ import annotations

import csv
import io
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from sottovoce.faces.client.reach import LIMITED, reach
from sottovoce.faces.server.budget_meaning import covered, regression_plan
from sottovoce.faces.server.page.charts import curves, number
from sottovoce.faces.server.page.dataset_page import NOTHING, DatasetPage, key_of, outcome_of
from sottovoce.faces.server.page.verb_forms import (
    column_words,
    first_answers,
    form_fields,
    imagining,
    row_fields,
    verb_question,
)
from sottovoce.faces.server.verbs import VerbQuestion
from sottovoce.inference.cells.question_reading import VERBS
from sottovoce.inference.regression.precision_forecast import PrecisionForecast
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, SottovoceError
from sottovoce.privacy.shares import percent
from sottovoce.records.facts import Person
from sottovoce.service.answers.catalogue import CATALOGUE
from sottovoce.service.answers.display import DisplayScale, drawn_rows, picture, plain_words, scale_of
from sottovoce.service.answers.ratios import ratio_numbers
from sottovoce.service.answers.word_table import sentence

_LEVELS = ("50", "80", "90", "95", "99")
"""The certainties, in %, that an answer is offered to be shown with."""
_PARTS = (1.0, 0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01)
"""Of what is left, how much is offered to be asked with: the first that is covered."""
_MOST = 400
"""The most rows that a list to choose from is made of."""
_CURVES = 12
"""The most curves that are drawn beside each other."""


class VerbPage(DatasetPage):
    """What one caller sees of one data set when asking by verb. No plan is made, so that none is waited for."""

    async def values(self, values: Mapping[str, str], outcome: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Return all that the page shows but the history."""
        remaining = await self._remaining()
        yours = remaining["yours"]
        return {
            "facts": self._facts,
            "values": first_answers(self._config) | dict(values),
            "fields": form_fields(self._config),
            "columns": [
                {"name": item.name, "title": item.title, "words": column_words(item.fact)}
                for item in self._config.columns.values()
                if not isinstance(item.fact, Person)
            ],
            "key": f"page-{secrets.token_hex(16)}",
            "may_ask": "ask" in self._caller.scopes and yours is not None,
            "may_plan": "plan" in self._caller.scopes,
            **NOTHING,
            **(outcome or {}),
            **await self._budgets(remaining),
        }

    async def ask(self, values: Mapping[str, str]) -> tuple[dict[str, Any], int]:
        """Ask what the form says; return the answer or the refusal as the page shows it, and the status."""
        try:
            question, key = verb_question(values), key_of(values)
            if question.composed:
                question = replace(question, again="anew" not in values)
            if "anew" not in values:
                earlier = await self._service.earlier(self._caller, self._name, question, key)
                if earlier is not None:
                    return {
                        "repeated": {"entry": earlier, "level": f"{100 * question.level:.12g}", "fields": _anew(values)}
                    }, 409
            answer = await self._service.ask(self._caller, self._name, question, key)
        except BudgetExceeded as error:
            asked = (error, question, values)
            return {"refusal": await self._service.planning(self._caller, self._refusal, *asked)}, 409
        except SottovoceError as error:
            return outcome_of(error)
        if question.composed:
            return {"described": _described_view(answer)}, 200
        return {"answer": await self._service.run(self._view, answer)}, 200

    async def foresee(self, values: Mapping[str, str]) -> tuple[dict[str, object], int]:
        """Plan the regression that the form says; return it or the refusal as the page shows it, and the status."""
        try:
            question = verb_question(first_answers(self._config) | dict(values))
            if question.verb != "regress":
                raise InvalidValue("a plan is of a regression; of other questions, weigh accuracy against risk")
            asked = (self._service, self._caller, self._name, question, imagining(values))
            plan = await self._service.planning(self._caller, regression_plan, *asked)
        except SottovoceError as error:
            return outcome_of(error)
        return {"foreseen": _plan_view(plan)}, 200

    async def again(
        self,
        number: int,
        rows: tuple[int, int] | None,
        row: Mapping[str, str] | None,
        level: float,
        others: Sequence[int] = (),
    ) -> tuple[dict[str, Any], int]:
        """Return an answer that was paid for before, as the page shows it, and the status.

        Two of its rows are compared, and it is said what is expected of a row, where these are asked for; one that
        makes no sense is refused beside the answer. With `others` it is what all these answers tell together.
        """
        refused, status = "", 200
        try:
            predict = [] if row is None else [row]
            answer = await self._service.again(self._caller, self._name, number, rows, predict, level, others)
        except InvalidValue as error:
            if row is None:
                raise
            refused, status = str(error), 422
            answer = await self._service.again(self._caller, self._name, number, rows, level=level)
        shown = await self._service.run(self._view, answer, row) | {"again": True, "refused": refused}
        return {"answer": shown}, status

    async def table(self, number: int, level: float) -> str:
        """Return the rows of an answer as CSV."""
        return answer_csv((await self._service.again(self._caller, self._name, number, level=level))["table"])

    def _refusal(self, error: Exception, question: VerbQuestion, values: Mapping[str, str]) -> dict[str, Any]:
        """Return why the budgets do not cover a question, and what share they would cover instead."""
        remaining, limited = reach(self._service.remaining(self._caller, self._name))
        said = f"This asks for {percent(question.spend)} of your budget, and {percent(remaining)} is left"
        said += f", {LIMITED}." if limited else "."
        if question.spend <= remaining:  # the two are not counted alike
            said = "Your own budget covers this; the one that everyone shares does not."
        fits = next((share for share in _weaker(remaining, question.spend) if self._covered(question, share)), None)
        fields = {name: text for name, text in values.items() if name != "key"} | {"spend": f"{fits}"}
        return {"said": said, "message": str(error), "weaker": fields if fits else None, "fits": fits}

    def _covered(self, question: VerbQuestion, share: float) -> bool:
        asked = replace(question, spend=share / 100)
        return covered(self._service, self._caller, self._name, asked)

    def _view(self, answer: Mapping[str, Any], row: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return what the page shows of an answer: a row a group, each with its interval."""
        rows = answer["table"]
        terms = answer["verb"] == "regress"
        names, result, scale = drawn_rows(rows, counts=answer["verb"] == "counts")
        if terms:  # each coefficient has a unit of its own, and one scale for all would hide most of them
            drawn = [row if row["privacy_share"] is not None else dict(row, estimate=None) for row in rows]
            result = [replace(item, picture=_from_zero(row)[0]) for item, row in zip(result, drawn, strict=True)]
        titles = {item.name: item.title for item in self._config.columns.values()}
        shares = [row.get("privacy_share") or 0.0 for row in rows]
        hidden = any(row["privacy_share" if terms else "estimate"] is None for row in rows)
        certainty = f"{100 * answer['level']:.12g}"
        return {
            "entry": answer["entry"],
            "question": answer["question"],
            "names": [titles.get(name, name) for name in names],
            "rows": result,
            "axis": None if terms else scale.axis(),
            "curves": _curves(rows, names, percent(answer["level"])) if answer["verb"] == "survival" else [],
            "ratios": _ratios(rows) if terms else None,
            "level": percent(answer["level"]),
            "certainty": certainty,
            "levels": sorted({*_LEVELS, certainty}, key=float),
            "thick": any(0 < share < 1 for share in shares),
            "hidden": hidden,
            "notes": [sentence(note) for note in answer["notes"]],
            "words": plain_words(answer["level"], len(rows), noisy=hidden or any(shares)),
            "share": answer["share"],
            "together": answer.get("together"),
            "earlier": answer["earlier"] if answer["verb"] in VERBS else None,
            "again": False,
            "refused": "",
            "pairs": [" / ".join(row.labels) for row in result]
            if 1 < len(rows) <= _MOST and answer["verb"] in VERBS
            else [],
            "contrast": _contrast_view(answer.get("contrast")),
            "predicting": _predicting(answer, titles, row or {}) if terms else None,
        }


def _curves(rows: Sequence[Mapping[str, Any]], names: Sequence[str], level: str) -> list[tuple[str, Markup]]:
    """Return the curve of each group, unless there are more than a reader compares."""
    *by, time = names
    groups = {tuple(row[name] for name in by) for row in rows}
    return curves(rows, by, time, level) if len(groups) <= _CURVES else []


def _predicting(answer: Mapping[str, Any], titles: Mapping[str, str], row: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a row to predict for, and what is expected of the one that was asked for."""
    formula = CATALOGUE["regress"].read(answer).question
    response = titles.get(formula.predicted, formula.predicted)
    result = {"fields": row_fields(formula.design, titles, row), "response": response, "rows": []}
    for said in answer["predicted"] or ():
        _, rows, scale = drawn_rows(said["expected"])
        result |= {"row": said["row"], "rows": rows, "axis": scale.axis(), "held": said["expected"][0].get("held")}
    return result


def _described_view(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description as the page shows it: the lines of a paper's table, with the interval of each number."""
    return {
        "question": answer["question"],
        "head": answer["lines"]["head"],
        "rows": answer["lines"]["body"],
        "share": answer["share"],
        "entries": answer["entries"],
        "notes": [sentence(note.replace("behind each semicolon", "beside each number")) for note in answer["notes"]],
    }


def _plan_view(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan as the page shows it: a row a term, with half the width of its interval."""
    few = plan["rare"] or [None] * len(plan["terms"])
    rows = [
        {
            "term": item["term"],
            "known": _known(item),
            "rare": rare and _known(rare),
            "plain": f"± {number(item['plain'])}" + (f" to {number(rare['plain'])}" if rare else ""),
        }
        for item, rare in zip(plan["terms"], few, strict=True)
    ]
    said = {
        name: plan[name]
        for name in ("question", "n", "share", "left", "covered", "yours", "assumed", "unsaid", "cautions")
    }
    said["limited"] = LIMITED if plan["whole_limits"] else ""
    return said | {"rows": rows, "level": percent(plan["level"]), "hints": ", ".join(plan["hints"])}


def _anew(values: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a form that asks a question though it was answered before."""
    return {name: text for name, text in values.items() if name not in ("key", "seal")} | {"anew": "1"}


def _weaker(left: float, asked: float) -> list[float]:
    """Return shares below what was asked, in % and the largest first: what is left, and some that surely fit it.

    What is left is told of noise of one kind; where everyone's budget is counted otherwise, an answer may cost it more.
    """
    shares = [math.floor(1000 * min(left, asked) * part) / 10 for part in _PARTS]
    return [share for share in shares if share > 0]


def _known(one: Mapping[str, Any]) -> str:
    """Return half the width of an interval, and where noise does most, if that is far more."""
    result = PrecisionForecast(**one)
    return f"± {number(result.width)}" + (f" (to {number(result.widest)})" if result.unsure else "")


def _ratios(rows: list[dict[str, object]]) -> dict[str, Any] | None:
    """Return what e^coefficient is called, and it for each row of a regression that has one, in words."""
    name = next((key for key in rows[0] if key.endswith("_ratio")), None)
    if name is None:
        return None
    shown = []
    for row in rows:
        numbers = ratio_numbers(row, name)
        middle, low, high = numbers or ("too uncertain to tell", "", "")
        shown.append(f"{middle} ({low} to {high})" if low else middle)
    return {"name": name.replace("_", " "), "rows": shown}


def _from_zero(row: Mapping[str, Any]) -> tuple[str, DisplayScale]:
    """Return an interval drawn on a scale of its own, on which zero is marked, and the scale."""
    scale = scale_of([dict(row, estimate=row["low"]), {"estimate": 0.0, "low": 0.0, "high": 0.0}])
    return picture(row, scale, row.get("privacy_share"), mark=0.0), scale


def _contrast_view(said: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return two rows beside each other as the page shows them: sentences, and the difference drawn on its scale."""
    if said is None:
        return None
    drawn, scale = _from_zero(said["row"])
    return {**said, "picture": drawn, "axis": scale.axis()}


def answer_csv(rows: list[dict[str, object]]) -> str:
    """Return the rows of an answer as the text of a CSV file.

    >>> answer_csv([{"ward": "A", "estimate": 1.5, "low": 1.0, "high": 2.0}]).splitlines()
    ['ward,estimate,low,high', 'A,1.5,1.0,2.0']
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
