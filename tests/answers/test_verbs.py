"""The questions people ask of a table, and the answers they get."""

import inspect
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sottovoce as sv
from sottovoce.inference.cells.cells_posterior import cells_posterior
from sottovoce.inference.cells.questions import Question, make_question
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Day, Facts
from sottovoce.service.answers import VERBS, Answer, NoisyCells, parse_question, parse_spend
from sottovoce.service.answers.catalogue import CATALOGUE
from sottovoce.service.answers.contrast import contrast
from sottovoce.service.answers.verbs import Verbs
from sottovoce.service.curator import Curator

N = 20_000
FACTS = sv.Facts(
    {"blood pressure": sv.Number(60, 250)},
    smoker=sv.Flag(),
    ward=sv.Category(["A", "B", "C", "never"]),
    sbp=sv.Number(60, 250),
    age=sv.Number(0, 110),
    visits=sv.Count(20),
)


def test_every_verb_is_known_to_all_who_ask_it_and_to_who_answers():
    for word in VERBS:
        verb = CATALOGUE[word]
        column = next(one for one in ("smoker", "visits") if one in verb.arguments[0].fitting(FACTS))
        said = {"event": "smoker"} if word == "survival" else {}
        question = verb.question(FACTS, {verb.arguments[0].name: column, "by": ["ward"], "where": "age >= 40"} | said)
        assert question.verb == word
        assert verb.question(FACTS, verb.arguments_of(question)) == question
        said = parse_question(question.describe())
        assert make_question(said.pop("verb"), said.pop("columns"), FACTS, **said) == question
        taken = set(inspect.signature(getattr(Verbs, word)).parameters)
        assert {argument.name for argument in verb.arguments} - {"cut"} <= taken
        size = question.reading.for_size(40).size
        posterior = cells_posterior(question, 40, "laplace", 2.0, np.full(size, 4, dtype=np.int64))
        told = posterior.interval(0.95)[question.places]
        assert told.shape == (len(question.labels), 2) and np.all(np.isfinite(told))


def patients() -> pa.Table:
    rng = np.random.default_rng(5)
    ward = rng.choice(["A", "B", "C"], N)
    sbp = np.clip(rng.normal(np.where(ward == "A", 131, 120), 18), 61, 249)
    holes = [None if gone else float(x) for gone, x in zip(rng.random(N) < 0.3, sbp, strict=True)]
    smoker = [None if i % 10 == 0 else bool(x) for i, x in enumerate(rng.random(N) < np.where(ward == "A", 0.4, 0.2))]
    table = {"ward": ward, "sbp": sbp, "blood pressure": holes, "age": rng.integers(0, 100, N)}
    return pa.table(table | {"smoker": smoker, "visits": rng.poisson(2, N)})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("patients") / "patients.parquet"
    pq.write_table(patients(), path)
    return path


@pytest.fixture
def curator(data: Path, tmp_path: Path) -> Iterator[Curator]:
    with Curator(data, facts=FACTS, ledger=tmp_path / "ledger", budget=sv.ApproxDP(1.0, 1e-6), who="ada") as opened:
        yield opened


def holds(row: Any, truth: float, slack: float = 1.0) -> bool:
    """Whether an interval, widened by `slack` of its width, holds the truth: no test of a level."""
    width = slack * (row["high"] - row["low"])
    return bool(row["low"] - width <= truth <= row["high"] + width)


def test_the_mean_of_a_subgroup_is_the_subgroups_mean(curator: Curator) -> None:
    (row,) = curator.mean("sbp", where="ward = 'A'", spend=0.2).rows
    assert holds(row, 131)
    assert row["low"] > 120
    assert row["high"] - row["low"] < 6


def test_missing_values_are_left_out_of_a_mean(curator: Curator) -> None:
    (row,) = curator.mean("blood pressure", spend=0.2).rows
    table = patients()
    truth = float(np.mean([x for x in table["blood pressure"].to_pylist() if x is not None]))
    assert holds(row, truth)
    assert row["low"] > 110


def test_an_answer_is_a_whole_posterior_with_an_interval(curator: Curator) -> None:
    table = curator.proportion("smoker", by="ward").table
    assert list(table.columns) == ["ward", "estimate", "low", "high", "privacy_share"]
    assert list(table["ward"]) == ["A", "B", "C", "never"]
    assert np.all(table["low"] < table["high"])
    assert holds(table.iloc[0], 0.4)
    assert holds(table.iloc[1], 0.2)
    assert table["high"][3] - table["low"][3] > 0.5  # nobody is there, so next to nothing is known
    assert table["privacy_share"][:3].between(0, 1).all() and np.isnan(table["privacy_share"][3])  # noise hides it


def test_levels_and_quantiles_are_said_in_percent_too(curator: Curator) -> None:
    answer = curator.quantiles("sbp", ["10%", "90%"], level="80%")
    assert answer.level == 0.8 and answer.question.at == (0.1, 0.9)
    assert curator.quantiles("sbp", "50%").question.median
    assert np.array_equal(answer.posterior.interval("80%"), answer.posterior.interval(0.8))  # type: ignore[arg-type]
    assert curator.balance("mean of sbp", level="80%").level == 0.8
    assert curator.share_for("proportion of smoker", "5%") == curator.share_for("proportion of smoker", 0.05)
    left = curator.remaining()
    with pytest.raises(InvalidValue, match=r"level reads like 5% or 0\.05\. Got 'high'"):
        curator.mean("sbp", level="high")
    with pytest.raises(InvalidValue, match=r"a quantile reads like 5% or 0\.05\. Got 'median'"):
        curator.quantiles("sbp", ["median"])
    assert curator.remaining() == left


def test_every_verb_answers_by_group(curator: Curator) -> None:
    rate = curator.rate("visits", by="ward", spend=0.1).rows
    assert all(holds(row, 2.0) for row in rate[:3])
    per = curator.rate("visits", exposure="age", by=["ward"], spend=0.1).rows
    assert all(holds(row, 2 / 49.5) for row in per[:3])
    counts = curator.counts(["ward", "smoker"], spend=0.1).table
    truth = patients().group_by(["ward", "smoker"]).aggregate([("age", "count")]).to_pylist()
    known = {(r["ward"], r["smoker"]): r["age_count"] for r in truth}
    assert all(holds(r, known.get((r["ward"], r["smoker"]), 0)) for _, r in counts.iterrows())
    answer = curator.ask("median of sbp by ward", spend=0.1)
    median = answer.rows
    assert holds(median[0], 131)
    assert holds(median[1], 120)
    assert list(answer.table.columns)[:2] == ["ward", "estimate"]  # told as asked, with no quantile in every row
    assert answer.difference("A", "B").high > 0
    assert [row["quantile"] for row in curator.quantiles("sbp", [0.25, 0.5], spend=0.1).rows] == [0.25, 0.5]
    shares = curator.proportion("ward", where="age < 50", spend=0.1).rows
    assert sum(row["estimate"] for row in shares) == pytest.approx(1, abs=0.05)


def test_groups_are_compared_by_their_joint_posterior(curator: Curator) -> None:
    answer = curator.mean("sbp", by="ward", spend=0.3)
    gap = answer.difference("A", "B")
    assert gap.low < 11 < gap.high + 2
    assert answer.probability("A > B") > 0.99
    assert answer.probability("B >= 200") == 0
    assert answer.ratio("A", "B").estimate == pytest.approx(131 / 120, abs=0.05)
    assert gap.interval(0.5)[0] > gap.low
    with pytest.raises(InvalidValue, match="no row"):
        answer.difference("A", "Z")
    with pytest.raises(InvalidValue, match="claim"):
        answer.probability("A")


def test_one_price_for_all_groups_and_shares_add_up(curator: Curator) -> None:
    assert curator.left() == "100 % left"
    for _ in range(10):
        answer = curator.proportion("smoker", by="ward", spend=0.05)
    assert answer.share == pytest.approx(0.05, rel=1e-4)
    assert answer.share <= 0.05
    assert curator.left() == "50 % left: about 10 more like the last"
    curator.mean("sbp", by=["ward", "smoker"], spend=0.5)
    assert curator.left().endswith("too little for one more like the last")
    with pytest.raises(BudgetExceeded):
        curator.mean("sbp", spend=0.05)


def test_the_noise_is_what_the_budget_charges_least_for(data: Path, tmp_path: Path) -> None:
    kinds = {}
    for budget in (sv.ApproxDP(1.0, 1e-6), sv.PureDP(1.0)):
        with Curator(data, facts=FACTS, ledger=tmp_path / f"{budget.word}", budget=budget) as curator:
            question = curator.question("proportion", "smoker")
            kinds[budget.word] = curator.mechanism_for(question, 0.05).noise
            assert curator.share(0.1) == curator.promise(0.1)
    assert kinds == {"approx": "gaussian", "pure": "laplace"}


def test_a_promise_may_be_spent_and_a_part_charged(curator: Curator) -> None:
    assert curator.mean("sbp", spend=sv.ApproxDP(0.2, 1e-7)).cost.excess(sv.ApproxDP(0.2, 1e-7)) <= 0
    part = curator.open_part("ben", curator.share(0.5))
    curator.proportion("smoker", spend=0.5, part=part)
    assert curator.left(part).startswith("50 % left")


def test_an_answer_is_charged_once_under_its_key_and_read_back(curator: Curator) -> None:
    first = curator.mean("sbp", by="ward", idempotency_key="k")
    again = curator.mean("sbp", by="ward", idempotency_key="k")
    assert first.entry == again.entry == curator.history()[-1].id
    assert first.rows == again.rows
    back = Answer.from_dict(json.loads(json.dumps(first.to_dict())))
    assert back.summary() == first.summary()


def test_an_answer_shows_itself(curator: Curator) -> None:
    answer = curator.ask("mean of `blood pressure` by ward where age >= 40", spend=0.1)
    assert repr(answer) == "Answer('mean of \"blood pressure\" by ward where age >= 40': 4 rows)"
    assert "<td>never</td>" in answer._repr_html_()
    assert answer.summary().count("\n") in range(7, 10)  # what noise hides, or makes up most of, is said
    assert "values below 60 count as 60 and values above 250 as 250\n" in answer.summary()
    assert "?" not in answer.summary().split("never")[0]
    assert answer.plot().axes[0].get_yticklabels()[0].get_text() == "A"
    assert len(answer.plot(densities=True).axes[0].lines) == 4
    draws = answer.to_arviz().posterior["mean_of_blood_pressure"]
    assert list(draws.coords["row"].values) == ["A", "B", "C", "never"]
    assert answer.posterior.sample(7).shape == (7, 4)
    for wrong in (-1, 2.5):
        with pytest.raises(InvalidValue, match="draws must be a whole number"):
            answer.posterior.sample(wrong)


def test_what_noise_hides_is_no_estimate_in_any_form() -> None:
    """Not in a frame, a file, a figure, or beside another row: only its range is told."""
    question = Question("mean", ("sbp",), FACTS, by=("ward",))
    records = patients().select(["ward", "sbp"]).to_pandas()
    answer = Answer(NoisyCells(question, N, "laplace", 200.0).release(records, seeded_rng(4)))  # nobody is in "never"
    assert "  never: ? (60 to 250)\n" in answer.summary() and "?" not in answer.summary().split("never")[0]
    assert "? where noise hides a row: its range is all that there can be" in answer.footing()
    assert [row["estimate"] is None for row in answer.rows] == [False] * 3 + [True]
    table = answer.table
    assert np.isnan(table.estimate.iloc[-1]) and {str(kind) for kind in table.dtypes.iloc[1:]} == {"float64"}
    assert table.to_csv(index=False).splitlines()[-1].startswith("never,,60.0,250.0,")
    (axes,) = answer.plot().axes
    dots = [line for line in axes.lines if line.get_gid() == "estimate"]
    assert [line.get_xdata().tolist() for line in dots] == [table.estimate.iloc[:3].tolist()]
    assert [(text.get_text(), text.get_position()[1]) for text in axes.texts] == [("not known", 0)]
    ranges = sorted(path[:, 0].tolist() for held in axes.collections for path in held.get_segments())
    assert np.allclose(ranges, sorted(table[["low", "high"]].values.tolist()))
    gap = answer.difference("A", "never")
    assert math.isnan(gap.estimate) and gap.row["estimate"] is None and ": ? (" in repr(gap)
    said = contrast(answer, 0, 3)
    assert said.sentences()[0].startswith("A less never: ? (95\u00a0% range: ")
    assert said.sentences()[-1] == "The answer does not tell which is higher: noise hides never."
    assert said.to_dict()["difference"]["estimate"] is None and said.to_dict()["higher"] is None
    assert said.factor is None and json.dumps(said.to_dict(), allow_nan=False)
    # No plain number is made of what was believed beforehand: neither draws nor what is computed of them.
    assert np.isnan(answer.draws("never")).all() and not np.isnan(answer.draws("A")).any()
    assert np.isnan(gap.draws).all() and np.isnan(answer.ratio("A", "never").draws).all()
    assert [math.isnan(answer.probability(claim)) for claim in ("A > never", "never >= 60", "A > B", "A >= 60")] == [
        *(True, True, False, False)
    ]
    assert answer.rows[-1]["privacy_share"] is None and np.isnan(table.privacy_share.iloc[-1])
    values = answer.to_arviz().posterior["mean_of_sbp"].to_numpy()
    assert np.isnan(values[..., -1]).all() and not np.isnan(values[..., :-1]).any()
    assert (gap.low, gap.high) == pytest.approx((answer.rows[0]["low"] - 250, answer.rows[0]["high"] - 60), abs=2)
    with pytest.raises(InvalidValue):
        answer.probability("A > nan")
    alone = Answer(NoisyCells(question, N, "laplace", 1e8).release(records, seeded_rng(4)))
    assert str(alone.table.estimate.dtype) == "float64" and alone.table.estimate.isna().all()


@pytest.mark.parametrize(
    ("verb", "column", "options", "message"),
    [
        ("mean", "smoker", {}, "ask for its proportion"),
        ("proportion", "sbp", {}, "no public list"),
        ("mean", "sbp", {"by": "age"}, "no public list"),
        ("mean", "weight", {}, "name no column 'weight'"),
        ("mean", "spb", {}, "name no column 'spb'; did you mean 'sbp'"),
        ("mean", "sbp", {"where": "weight > 3"}, "name no column 'weight'"),
        ("mean", "sbp", {"where": "ward = A"}, "quote a text: ward = 'A'"),
        ("mean", "sbp", {"exposure": "age"}, "goes with a rate"),
        ("rate", "sbp", {}, "ask for its mean"),
        ("quantiles", "sbp", {"at": (1.5,)}, "probabilities"),
        ("counts", ["ward", "ward"], {}, "once"),
        ("counts", "age", {}, r"cut, by Cells\(facts, \{'age': 12\}\) or --cut age=12"),
        ("counts", {"ward": 2}, {}, r"Cells\(facts"),
        ("proportion", "smoker", {"prior": 0.0}, "prior"),
        ("guess", "sbp", {}, "one of"),
    ],
)
def test_a_question_that_makes_no_sense_costs_nothing(
    curator: Curator, verb: str, column: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidValue, match=message):
        curator.question(verb, column, **options)
    assert curator.history() == []


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda c: c.mean("sbp", spent=0.1), "mean takes no 'spent'; did you mean 'spend'"),
        (lambda c: c.mean("sbp", wher="age > 3"), "mean takes no 'wher'; did you mean 'where'"),
        (lambda c: c.counts("ward", idempotencykey="a"), "counts takes no 'idempotencykey'; did you mean"),
        (lambda c: c.mean("sbp", prior=2), "mean takes no 'prior'"),
        (lambda c: c.regress("smoker ~ age", by="ward"), "regress takes no 'by'"),
        (lambda c: c.plan("smoker ~ age", imagine=["smoker=20%"]), "plan takes no 'imagine'; did you mean 'imagined'"),
        (lambda c: c.ask("mean of sbp", xyz="red"), "mean takes no 'xyz'; it takes column, by"),
    ],
)
def test_a_misspelt_option_is_named_and_costs_nothing(curator: Curator, ask: Any, said: str) -> None:
    before = curator.left()
    with pytest.raises(InvalidValue, match=said):
        ask(curator)
    assert curator.left() == before


def test_a_long_title_stays_within_its_figure_and_rows_left_out_are_told(tmp_path: Path) -> None:
    """Dollars are drawn as dollars: an unfinished formula would end in an error."""
    names = ["$5 to $10", *(f"ward number {k}" for k in range(7)), "$\\frac{x$"]
    rows = pa.table({"ward": names * 9, "ill": [True, False, False] * 27})
    facts = sv.Facts(ward=sv.Category(names), ill=sv.Flag())
    where = "ill or " + " and ".join(f"ward != '{name}'" for name in names[5:])  # of every ward some may be left
    with Curator(rows, tmp_path / "ledger", sv.ApproxDP(9.0, 1e-6), facts=facts, dataset="wards") as held:
        answer = held.proportion("ill", by="ward", where=where, spend=0.5)
        forest = held.regress("ill ~ ward", where=where, spend=0.2)
    plain, dense = answer.plot(), answer.plot(densities=True)
    for drawn in (plain, dense, forest.plot(), forest.plot_effect("ward")):
        drawn.draw_without_rendering()
        title = drawn._suptitle.get_window_extent()
        assert drawn.bbox.x0 <= title.x0 and title.x1 <= drawn.bbox.x1
    assert dense.get_suptitle().replace("\n", " ").endswith("(the first 8 of 9 rows)")
    label = plain.axes[0].get_yticklabels()[0]
    assert label._preprocess_math(label.get_text()) == ("$5 to $10", False)


@pytest.mark.parametrize("asked", [("mean", ("sbp",), ("seen",)), ("counts", ("seen",), ())])
def test_who_groups_by_a_day_is_not_told_to_cut_it(asked: tuple[str, tuple[str, ...], tuple[str, ...]]) -> None:
    verb, columns, by = asked
    with pytest.raises(InvalidValue, match=r"such as month\(seen\)") as refused:
        Question(verb, columns, Facts(sbp=sv.Number(60, 250), seen=Day("2024-01-01", "2024-12-31")), by=by)
    assert "cut" not in str(refused.value)


def test_a_table_without_facts_takes_no_questions(data: Path, tmp_path: Path) -> None:
    with (
        Curator(data, ledger=tmp_path / "ledger", budget=sv.PureDP(1.0)) as curator,
        pytest.raises(InvalidValue, match="facts"),
    ):
        curator.mean("sbp")


@pytest.mark.parametrize(
    ("plain", "meant"),
    [
        ("average sbp per ward", "mean of sbp by ward"),
        ("Average of sbp for each ward where age > 3", "mean of sbp by ward where age > 3"),
        ("percentage of smoker per ward and age: under 18, 18+", "proportion of smoker by ward, age: under 18, 18+"),
        ("shares of smoker in each ward", "proportion of smoker by ward"),
        ("mean of sbp per ward by smoker", "mean of sbp by ward, smoker"),
        ("quartiles of sbp", "quantiles of sbp"),
        ("medians of sbp per ward", "median of sbp by ward"),
        ("rates of visits per years for each ward", "rate of visits per years by ward"),
    ],
)
def test_plain_words_ask_what_they_mean(plain: str, meant: str) -> None:
    assert parse_question(plain) == parse_question(meant)


def test_what_a_rate_is_per_is_no_group() -> None:
    facts = sv.Facts(visits=sv.Count(20), ward=sv.Category(["A", "B"]), years=sv.Number(0, 10))
    with pytest.raises(InvalidValue, match="a rate is per one column"):
        parse_question("rate of visits per years, ward")
    with pytest.raises(InvalidValue, match="a rate is per a number, such as years, and 'ward' is a category"):
        Question("rate", ("visits",), facts, exposure="ward")


def test_questions_in_words() -> None:
    asked = parse_question("rate of visits per age by ward, smoker where age > 3 and ward = 'by where'")
    assert asked == {
        "verb": "rate",
        "columns": ("visits",),
        "exposure": "age",
        "by": ("ward", "smoker"),
        "where": "age > 3 and ward = 'by where'",
    }
    assert parse_question("median sbp") == {"verb": "quantiles", "columns": ("sbp",), "at": (0.5,)}
    assert parse_question("pooled counts of a, b")["pool"] is True
    assert parse_question("counts of a and `b and c`, Hand by and-y and Sand")["columns"] == ("a", "b and c", "Hand")
    assert parse_question("""counts of 'a b', "c's" by `d` where e = 'f'""")["columns"] == ("a b", "c's")
    assert parse_question("counts of a by and-y AND sand and `and`")["by"] == ("and-y", "sand", "and")
    for text in ("mean", "guess of x", "", "mean of sbp by", "mean of sbp per", "mean of sbp for each"):
        with pytest.raises(InvalidValue, match="reads like"):
            parse_question(text)
    for text in ("number of falls by ward", "How many by ward", "count by ward", "how many smokers where age > 3"):
        with pytest.raises(InvalidValue, match=r"^how many there are is asked by the columns"):
            parse_question(text)
    assert parse_spend("approx:1,1e-6") == "approx:1,1e-6"
    with pytest.raises(InvalidValue, match="share"):
        parse_spend("much")
