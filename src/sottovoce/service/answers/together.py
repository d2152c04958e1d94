"""Answers to one question, asked several times, told as one: what each release tells of the same records adds up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sottovoce.inference.cells.intervals import checked_level
from sottovoce.inference.cells.pooled_releases import pooled
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.composition import compose
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.replayed_answer import answer_again
from sottovoce.service.ledger import Budget, Entry


def told_together(entries: Sequence[tuple[Entry, Budget]], level: float | str = 0.95) -> Answer:
    """Return what the answers of some entries tell together: post-processing of what was released, so free."""
    wanted = checked_level(level)
    numbers = [entry.id for entry, _ in entries]
    if len(set(numbers)) < len(numbers) or len(numbers) < 2:
        raise InvalidValue(f"name two entries or more, each once. Got {numbers}")
    answers = [answer_again(entry, budget, wanted) for entry, budget in entries]
    for (entry, _), answer in zip(entries, answers, strict=True):
        if not isinstance(answer, Answer):
            raise InvalidValue(f"entry {entry.id} is a regression; questions alone are told together")
        if _asked(answer) != _asked(answers[0]) or answer.question.facts != answers[0].question.facts:
            raise InvalidValue(
                f"entry {entry.id} answers {answer.question.describe()!r} and entry {numbers[0]} "
                f"{answers[0].question.describe()!r}; answers to one question are told together"
            )
        if entry.request.get("data") != entries[0][0].request.get("data"):
            raise InvalidValue(
                f"entries {numbers[0]} and {entry.id} are about different versions of the data, whose truths may differ"
            )
    release = _together([answer.release for answer in answers], numbers)
    return Answer(release, None, sum(answer.share or 0.0 for answer in answers), wanted)


def told_with(answer: Answer, earlier: Sequence[tuple[Entry, Budget]]) -> Answer:
    """Return an answer told with what earlier ones to the same question know, free; itself where they do not go so.

    Those of two kinds of noise may not, and answers of other kinds than rows do not.
    """
    before = [answer_again(entry, budget) for entry, budget in earlier]
    if answer.entry is None or any(type(item) is not Answer for item in (answer, *before)):
        return answer
    entries = [*(entry.id for entry, _ in earlier), answer.entry]
    try:
        return replace(answer, release=_together([item.release for item in (*before, answer)], entries))
    except InvalidValue:
        return answer


def _together(releases: Sequence[Release], entries: Sequence[int]) -> Release:
    value: Any = pooled([release.value for release in releases])
    described = {
        "mechanism": "together",
        "noise": value.noise,
        "n": value.n,
        "entries": list(entries),
        "system": value.question.to_dict(),
    } | {name: releases[-1].mechanism[name] for name in ("periods",) if name in releases[-1].mechanism}
    profile, drawn = compose([release.profile for release in releases]), any(item.reproducible for item in releases)
    return Release(value, profile, described, releases[0].parameter, drawn)


def _asked(answer: Answer) -> str:
    return json.dumps({k: v for k, v in answer.question.to_dict().items() if k != "bins"}, sort_keys=True)
