"""What is planned is what can be asked, and what was paid for is not paid for again without a word."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue
from sottovoce.service.answers import Question, Regression

N = 400
FACTS = sv.Facts(age=sv.Number(18, 110), ward=sv.Category(["A", "B"]), smoker=sv.Flag(), patient=sv.Person(rows=3))
ROWS = sv.Facts({name: FACTS[name] for name in ("age", "ward", "smoker")})


def patients() -> pa.Table:
    rng = np.random.default_rng(3)
    ages, wards = rng.integers(18, 110, N).astype(float), rng.choice(list("AB"), N)
    return pa.table({"age": ages, "ward": wards, "smoker": rng.random(N) < 0.3, "patient": np.arange(N) // 2})


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[sv.Curator]:
    with sv.Curator(patients(), tmp_path / "l", sv.ApproxDP(1.0, 1e-6), facts=ROWS, dataset="p") as opened:
        yield opened


def outcome(work: Callable[[], Any]) -> str:
    """Return what is refused, or nothing."""
    try:
        work()
    except sv.SottovoceError as error:
        return f"{type(error).__name__}: {error}"
    return ""


ELSEWHERE = Question("proportion", ("x",), sv.Facts(x=sv.Flag()))
ASKED: list[tuple[str | Question, dict[str, Any]]] = [
    *((text, {"spend": 0.02}) for text in ("mean of age", "proportion of smoker by ward", "counts of ward and smoker")),
    *((text, {"spend": 0.9}) for text in ("mean of age", "smoker ~ age")),
    *((text, {"spend": 0.02}) for text in ("proportion of ghost", "mean of age by ghost", "mean of age where ghost")),
    *((text, {"spend": 0.02}) for text in ("mean of age where ward = 'Z'", "mean of smoker", "smoker ~ ghost")),
    *(("mean of age", {"spend": spend}) for spend in (0, 2, -1, "5%%", True)),
    *(("mean of age", {"spend": 0.02, "level": level}) for level in (0, 2, "x")),
    ("smoker ~ age", {"spend": 0.02}),
    (ELSEWHERE, {"spend": 0.02}),
]


@pytest.mark.parametrize("facts", [ROWS, FACTS], ids=["rows", "persons"])
@pytest.mark.parametrize(("asked", "options"), ASKED, ids=str)
def test_plan_refuses_what_the_question_would_be_refused_for(
    tmp_path: Path, facts: sv.Facts, asked: str | Question, options: dict[str, Any]
) -> None:
    with sv.Curator(patients(), tmp_path / "l", sv.ApproxDP(1.0, 1e-6), facts=facts, dataset="p") as curator:
        curator.counts("ward", spend=0.6)
        before = curator.share_left()
        planned = outcome(lambda: curator.plan(asked, **options))
        assert curator.share_left() == before
        if isinstance(asked, Question):
            done = outcome(lambda: curator.answer(asked, **options))
        else:
            done = outcome(lambda: (curator.regress if "~" in asked else curator.ask)(asked, **options))
        assert (planned == "") == (done == ""), (planned, done)
        assert done == "" or curator.share_left() == before


def test_a_part_is_planned_for_as_it_is_asked_with(curator: sv.Curator) -> None:
    small = curator.open_part("ada", 0.1)
    curator.mean("age", spend=0.95)
    for spend in (0.2, 0.9):  # the whole has 5 % left: half of the part
        plans = [outcome(lambda: curator.plan(q, spend=spend, part=small)) for q in ("mean of age", "smoker ~ age")]
        done = [
            outcome(lambda: curator.mean("smoker" if spend > 2 else "age", spend=spend, part=small)),
            outcome(lambda: curator.regress("smoker ~ age", spend=spend, part=small)),
        ]
        assert [text == "" for text in plans] == [text == "" for text in done] == [spend < 0.5] * 2
    with pytest.raises(InvalidValue, match="part"):
        curator.plan("mean of age", part=curator.budget)


def test_a_share_that_is_not_left_is_not_offered(curator: sv.Curator) -> None:
    needed = curator.share_for("mean of age", 4.0)
    curator.mean("age", spend=1 - needed / 2)
    with pytest.raises(BudgetExceeded):
        curator.share_for("mean of age", 4.0)


@pytest.mark.parametrize(("text", "other"), [("mean of age by ward", "mean of age"), ("smoker ~ age", "smoker ~ ward")])
def test_a_question_asked_twice_is_noted_before_it_is_charged_and_told_free_again(
    curator: sv.Curator, text: str, other: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = curator.regress if "~" in text else curator.ask
    spent_when_noted: list[float] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            spent_when_noted.append(1 - curator.share_left())

    listener = Listener()
    logging.getLogger("sottovoce.service.answers.paid_verbs").addHandler(listener)
    try:
        caplog.clear()
        first = ask(text, spend=0.02)
        ask(other, spend=0.02)
        assert caplog.records == []
        before = curator.share_left()
        # Free: whatever it would have cost, and at any level.
        for options in ({}, {"spend": 0.5}, {"spend": 1.0, "idempotency_key": "k"}):
            same = ask(text, again=True, **options)
            assert (same.entry, same.rows) == (first.entry, first.rows)
        wide = ask(text, again=True, level=0.99)
        assert wide.level == 0.99 and wide.entry == first.entry
        assert curator.share_left() == before and caplog.records == []
        second = ask(text, spend=0.03)
        assert second.entry != first.entry and curator.share_left() < before
        (record,) = caplog.records
        assert record.levelno == logging.WARNING and f"entry {first.entry} answered this very question" in str(
            record.getMessage()
        )
        assert spent_when_noted == [pytest.approx(1 - before)]
        said = f"entry {first.entry} answered this very question before"
        said += (
            "; again=True (--again) tells that answer, free"
            if "~" in text
            else ", and what it knows is told here too, free: this is narrower than either"
        )
        assert said in second.notes and said in " ".join(second.summary().split())
        assert not any("answered this very" in note for note in (*first.notes, *wide.notes))
        plan = curator.plan(text, spend=0.02)
        assert f"entry {second.entry} answered this very question before" in " ".join(plan.summary().split())
        assert (
            "answered this very"
            not in curator.plan(text + " where age >= 30" if "~" not in text else "smoker ~ ward + age").summary()
        )
        assert ask(text, again=True).entry == second.entry  # the dearest is the nearest
        caplog.clear()
        ask(text, spend=0.02, idempotency_key="mine")  # a retry under its key is free anyway
        assert caplog.records == []
    finally:
        logging.getLogger("sottovoce.service.answers.paid_verbs").removeHandler(listener)


def test_where_there_is_no_earlier_answer_again_asks(curator: sv.Curator) -> None:
    answer = curator.proportion("smoker", spend=0.02, again=True)
    assert curator.share_left() == pytest.approx(0.98)
    assert curator.proportion("smoker", spend=0.02, again=True).entry == answer.entry
    fit = curator.regress("smoker ~ age", spend=0.02, again=True)
    assert isinstance(fit, Regression) and curator.regress("smoker ~ age", again=True).rows == fit.rows
    with pytest.raises(InvalidValue, match="again= is True or False"):
        curator.proportion("smoker", again=3)


def test_the_earlier_answer_of_another_s_part_is_not_told(curator: sv.Curator) -> None:
    ada, bob = curator.open_part("ada", 0.3), curator.open_part("bob", 0.3)
    first = curator.mean("age", part=ada, again=True)
    assert curator.mean("age", part=bob, again=True).entry != first.entry
    assert curator.mean("age", part=ada, again=True).entry == first.entry


def test_what_another_process_answered_meanwhile_is_known(curator: sv.Curator, tmp_path: Path) -> None:
    """What was read of the ledger is not read again; what was under way then is looked at once more."""
    question = curator.question("mean", "age")
    paid = curator.reserve(curator.mechanism_for(question, 0.02))
    assert curator.answered_before(question) is None
    with sv.Curator(patients(), tmp_path / "l", facts=ROWS, dataset="p") as other:
        assert other.answered_before(question) is None
        curator.record(*curator.make_all([paid]))
        assert other.answered_before(question) == curator.answered_before(question) == paid.reservation.entry
        dearer = other.mean("age", spend=0.1)
        assert curator.answered_before(question) == dearer.entry
        for share in range(1, 4):
            curator.proportion("smoker", spend=share / 100)
        assert other.answered_before(question) == dearer.entry
