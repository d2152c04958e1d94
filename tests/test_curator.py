import contextlib
import dataclasses
import os
import re
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.mechanisms import DiffusedPosterior, NoisyStatistics, Release, StatisticalQuery
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.errors import (
    BudgetExceeded,
    InvalidData,
    InvalidValue,
    LedgerUnavailable,
    UnprovenPrivacy,
)
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import ApproxDP, Promise, PureDP, RenyiDP
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.records.facts import Category, Facts, Flag, Number, Person
from sottovoce.records.readings import Statistics
from sottovoce.service.curator import Curator, RecordedRelease, Unrecorded
from sottovoce.service.curator import readable_records as records
from sottovoce.service.curator.data_source import DataSource
from sottovoce.service.ledger import EntryPending, KeyTaken, Ledger, Reservation, State
from sottovoce.service.ledger.hash_chain import canonical, digest
from support.nursery import told_by

N = 100
BUDGET = RenyiDP(order=2, epsilon=1.0)
MECHANISM = DiffusedPosterior.calibrate(BetaBernoulli(6, 12), n=N, target=RenyiDP(order=2, epsilon=0.125))
COST = Fraction(float(MECHANISM.profile.renyi(2)))


def write_patients(folder: Path) -> Path:
    smoker, age = [True, False, False, False] * 25, [20 + i % 50 for i in range(N)]
    pq.write_table(pa.table({"smoker": smoker, "age": age}), folder / "patients.parquet")
    return folder / "patients.parquet"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_patients(tmp_path)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "patients.ledger"


@pytest.fixture
def curator(data: Path, place: Path) -> Any:
    with Curator(data, ledger=place, budget=BUDGET, who="ada") as opened:
        yield opened


def spent(place: Path) -> Fraction:
    with Ledger(place) as ledger:
        (budget,) = ledger.budgets()
        return ledger.spent(budget)


class Watched:
    """A table that calls someone at the moment its records are read."""

    def __init__(self, on_read: Callable[[], object], n: int = N) -> None:
        self.schema, self.n, self.on_read = {"smoker": "boolean"}, n, on_read

    def count(self) -> int:
        return N

    def check(self, reading: Any, column: Any = None, *, where: Any = None, missing: Any = None) -> None:
        if column not in self.schema:
            raise InvalidData(f"no column {column}")

    def read(self, reading: Any, column: Any = None, *, where: Any = None, missing: Any = None) -> Statistics:
        self.on_read()
        return Statistics(self.n, np.array([25.0]))

    def close(self) -> None:
        raise AssertionError("a table that came open is left open")


def test_a_release_is_answered_charged_and_recorded(curator: Curator, data: Path) -> None:
    release = curator.release(MECHANISM, column="smoker")
    assert 0 < release.value < 1
    (entry,) = curator.history()
    assert (entry.state, entry.who, entry.dataset) == (State.COMMITTED, "ada", str(data.resolve()))
    assert entry.profile == release.profile == MECHANISM.profile
    assert entry.request["column"] == "smoker"
    assert entry.request["mechanism"] == MECHANISM.to_dict()
    assert curator.remaining().epsilon == pytest.approx(float(1 - COST), rel=1e-12)
    assert curator.pending() == []


@pytest.mark.parametrize("budget", [1.0, {"epsilon": 1}])
def test_a_budget_that_is_no_promise_is_refused_and_leaves_no_ledger(data: Path, place: Path, budget: Any) -> None:
    with pytest.raises(InvalidValue, match=r"a budget is a promise, such as sv\.ApproxDP"):
        Curator(data, ledger=place, budget=budget)
    assert not place.exists()


def test_it_reads_what_it_was_asked_for(data: Path, place: Path) -> None:
    # Without noise to speak of: 25 smoke, of whom those over 40 are 14, and the others count as no smokers.
    exact = NoisyStatistics.calibrate(BetaBernoulli(1, 1), n=N, target=PureDP(8.0))
    table = pq.read_table(data).to_pydict()
    older = sum(s and a > 40 for s, a in zip(table["smoker"], table["age"], strict=True))
    with Curator(data, place, PureDP(1000.0)) as curator:
        all_of_them = curator.release(exact, "smoker").value.mean
        some_of_them = curator.release(exact, "smoker", where="age > 40").value.mean
    assert all_of_them == pytest.approx(26 / 102, abs=0.02)
    assert some_of_them == pytest.approx((older + 1) / 102, abs=0.02)


def test_the_reserve_is_durable_before_the_first_record_is_read(place: Path) -> None:
    seen: list[tuple[State, Fraction]] = []

    def look() -> None:
        with Ledger(place) as other:
            (entry,) = other.entries()
            seen.append((entry.state, other.spent(other.budget("p"))))

    with Curator(Watched(look), place, BUDGET, dataset="p") as curator:
        assert seen == []
        curator.release(MECHANISM, "smoker")
    assert seen == [(State.PENDING, COST)]


def test_a_failure_while_reading_is_charged_and_reported(place: Path) -> None:
    def fail() -> None:
        raise InvalidData("the disk is on fire")

    with Curator(Watched(fail), place, BUDGET, dataset="p") as curator:
        with pytest.raises(InvalidData, match="on fire"):
            curator.release(MECHANISM, "smoker")
        (entry,) = curator.history()
        assert (entry.state, entry.note) == (State.LOST, "failed: InvalidData")
    assert spent(place) == COST


def test_an_interrupt_before_reading_costs_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Reservation) -> None:
        raise KeyboardInterrupt

    never = Watched(lambda: pytest.fail("the data was read"))
    with Curator(never, place, BUDGET, dataset="p") as curator:
        monkeypatch.setattr(Reservation, "touch", interrupt)
        with pytest.raises(KeyboardInterrupt):
            curator.release(MECHANISM, "smoker")
        (entry,) = curator.history()
        assert entry.state is State.VOID
    assert spent(place) == 0


def test_what_does_not_fit_is_refused_before_any_record_is_read(place: Path) -> None:
    reads: list[int] = []
    with Curator(Watched(lambda: reads.append(1)), place, BUDGET, dataset="p") as curator:
        with pytest.raises(BudgetExceeded, match="nothing was spent"):
            curator.release(MECHANISM, "smoker", draws=9)
        assert reads == []
        fits = int(1 // COST)
        for _ in range(fits):
            curator.release(MECHANISM, "smoker")
        with pytest.raises(BudgetExceeded):
            curator.release(MECHANISM, "smoker")
        assert len(reads) == fits
    assert spent(place) == fits * COST


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"rng": seeded_rng(1)}, InvalidValue, "secure randomness"),
        ({"column": "smokes"}, InvalidData, "smokes"),
        ({"column": None}, InvalidData, "say what to read"),
        ({"where": "age >"}, InvalidValue, "condition"),
        ({"where": "height > 3"}, InvalidData, "height"),
        ({"missing": 7.5}, InvalidValue, "missing"),
        ({"draws": 0}, InvalidValue, "draws"),
        ({"mechanism": DiffusedPosterior(BetaBernoulli(6, 12), 99, 0.1)}, InvalidValue, "n=99 and"),
        ({"mechanism": StatisticalQuery(BetaBernoulli(1, 1), N, bool, 0.1)}, InvalidValue, "Python predicate"),
    ],
)
def test_a_wrong_question_costs_nothing(
    curator: Curator, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    question = {"mechanism": MECHANISM, "column": "smoker"} | options
    with pytest.raises(error, match=said):
        curator.release(**question)
    assert curator.history() == []


def test_secure_randomness_of_ones_own_is_welcome(curator: Curator) -> None:
    assert not curator.release(MECHANISM, "smoker", rng=secure_rng()).reproducible


class SeededInside(DiffusedPosterior):
    """A mechanism that takes no notice of the randomness it is given."""

    def release(self, records: Any, rng: Any = None, **options: Any) -> Any:
        return super().release(records, seeded_rng(3), **options)


def test_a_release_made_with_seeded_randomness_is_not_let_out(curator: Curator) -> None:
    with pytest.raises(UnprovenPrivacy, match="seeded"):
        curator.release(SeededInside(BetaBernoulli(6, 12), N, 0.1), "smoker")
    (entry,) = curator.history()
    assert (entry.state, entry.release) == (State.LOST, None)


class Unproven(DiffusedPosterior):
    """The same sampler, by a Markov chain whose convergence nobody checked."""

    @property
    def profile(self) -> Profile:
        return dataclasses.replace(super().profile, basis=Basis.CONVERGENCE)


def test_an_unproven_release_needs_consent_and_is_marked(curator: Curator) -> None:
    unproven = Unproven(BetaBernoulli(6, 12), N, MECHANISM.data_weight)
    with pytest.raises(UnprovenPrivacy):
        curator.release(unproven, "smoker")
    assert curator.history() == []
    curator.release(unproven, "smoker", accept_unproven=True)
    (entry,) = curator.history()
    assert entry.basis is Basis.CONVERGENCE


class TestPublicFacts:
    def test_the_same_data_goes_on_where_it_was(self, curator: Curator, data: Path, place: Path) -> None:
        curator.release(MECHANISM, "smoker")
        for budget in (None, BUDGET):
            with Curator(str(data), place, budget) as again:
                assert again.budget == curator.budget
                assert len(again.history()) == 1

    def test_another_number_of_records_is_refused(self, curator: Curator, data: Path, place: Path) -> None:
        table = pq.read_table(data)
        pq.write_table(table.slice(0, N - 1), data)
        with pytest.raises(InvalidData, match=r"had 100 records when its budget was opened\. Got 99"):
            Curator(data, place)

    def test_another_schema_is_refused(self, curator: Curator, data: Path, place: Path) -> None:
        pq.write_table(pq.read_table(data).rename_columns(["smokes", "age"]), data)
        with pytest.raises(InvalidData, match=r"had the columns .*smoker.* Got .*smokes"):
            Curator(data, place)

    def test_columns_of_a_text_file_may_be_read_as_other_types(self, tmp_path: Path, place: Path) -> None:
        """What facts say of a column changes, and comes later: the file says nothing, so it is the same data."""
        file = tmp_path / "stays.csv"
        file.write_text("month,ward,who\n" + "".join(f"{1 + k % 3},{'AB'[k % 2]},{k}\n" for k in range(90)))
        months = Facts(month=Category(["1", "2", "3"]))
        spending: dict[str, Any] = {"spend": 0.2, "idempotency_key": "k"}
        with Curator(file, place, BUDGET, facts=months) as curator:
            first = curator.counts(["month"], **spending)
        later = Facts(month=Number(1, 3), ward=Category(["A", "B"]))
        with Curator(file, place, BUDGET, facts=later) as curator:  # a warning would be an error
            assert curator.mean("month", by="ward", spend=0.2).entry > first.entry
            with pytest.raises(KeyTaken):
                curator.counts(["ward"], **spending)
        with Curator(file, place, BUDGET, facts=months) as curator:
            assert curator.counts(["month"], **spending).entry == first.entry
            assert curator.left().startswith("60 %")
        os.utime(file, ns=(1, 1))
        with pytest.warns(UserWarning, match="written again"):
            Curator(file, place, facts=later).close()
        file.write_text(file.read_text().replace("ward", "wards", 1))
        with pytest.raises(
            InvalidData, match=r"had the columns ward: string, wards: none when.* Got ward: none, wards"
        ):
            Curator(file, place, facts=months)

    def test_whose_a_row_is_is_read_in_one_way(self, tmp_path: Path, place: Path) -> None:
        """As numbers 1 and 01 are one person, and as texts they are two."""
        file = tmp_path / "stays.csv"
        file.write_text("who,ward\n" + "".join(f"{k % 30},{'AB'[k % 2]}\n" for k in range(90)))
        facts = Facts(who=Person(), ward=Category(["A", "B"]))
        Curator(file, place, BUDGET, facts=facts).close()
        with pytest.raises(InvalidData, match="had the columns who: string when"):
            Curator(file, place, facts=facts, types={"who": "int64"})

    def test_a_change_while_the_curator_is_open_is_refused_and_nothing_is_spent(self, place: Path) -> None:
        with Curator(Watched(lambda: None, n=N + 1), place, BUDGET, dataset="p") as curator:
            with pytest.raises(InvalidData, match="it changed"):
                curator.release(MECHANISM, "smoker")
            assert [entry.state for entry in curator.history()] == [State.VOID]  # n is public, and no noise was drawn

    def test_a_budget_does_not_change(self, curator: Curator, data: Path, place: Path) -> None:
        with pytest.raises(InvalidValue, match=r"is renyi:2,1 and never changes; leave it out to go on. Got pure:5"):
            Curator(data, place, PureDP(5.0))
        with pytest.raises(InvalidValue, match=r"is counted at order None\. Got 7"):
            Curator(data, place, order=7)

    @pytest.mark.parametrize("nothing", [PureDP(0.0), RenyiDP(2.0, 0.0)], ids=str)
    def test_a_budget_that_pays_for_nothing_is_not_opened(self, data: Path, tmp_path: Path, nothing: Promise) -> None:
        with pytest.raises(InvalidValue, match="pays for no answer, and would never change; name a larger one"):
            Curator(data, tmp_path / "nothing.ledger", nothing)
        assert not (tmp_path / "nothing.ledger").exists()
        with Curator(data, tmp_path / "nothing.ledger", BUDGET) as curator:
            assert curator.left() == "100 % left"
            assert curator.left(curator.open_part("nobody", nothing)) == "0 % left"

    def test_who_opens_a_budget_that_protects_nobody_is_warned(
        self, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        # Once, when it is opened, and of as weak a budget once in a process: not again by a loop over fresh ledgers.
        for place, epsilon, said in (("a", 1.0, 0), ("b", 50.5, 1), ("b", 50.5, 1), ("c", 50.5, 1), ("d", 51.5, 2)):
            Curator(data, tmp_path / f"{place}.ledger", PureDP(epsilon)).close()
            assert caplog.text.count("next to no protection") == said

    def test_who_opens_a_second_ledger_for_a_file_is_told_of_the_first(
        self, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (away := tmp_path / "away").mkdir()
        (others := tmp_path / "others.parquet").write_bytes(data.read_bytes())  # other people's, as far as is known
        (tmp_path / "broken.ledger").write_text("no ledger", encoding="utf-8")
        (tmp_path / "folder.ledger").mkdir()
        with contextlib.closing(sqlite3.connect(tmp_path / "foreign.ledger")) as foreign, foreign:
            foreign.execute("CREATE TABLE t (x)")
        before = (tmp_path / "foreign.ledger").read_bytes()

        def told() -> list[str]:
            said = [one for one in caplog.messages if "together they let out more" in one]
            caplog.clear()
            return said

        Curator(data, tmp_path / "first.ledger", BUDGET).close()
        Curator(others, tmp_path / "other.ledger", BUDGET).close()
        Curator(pq.read_table(data), tmp_path / "frame.ledger", BUDGET, dataset="frame").close()
        assert told() == []
        link = away / "link.parquet"
        link.symlink_to(data)
        Curator(
            link, away / "second.ledger", BUDGET, dataset="by another name"
        ).close()  # beside the data, not the link
        (said,) = told()
        assert said.startswith(f"{tmp_path / 'first.ledger'} has a budget for the data of 'by another name'")
        Curator(data, tmp_path / "third.ledger", BUDGET).close()
        Curator(data, tmp_path / "first.ledger", BUDGET).close()  # the one that there was
        Curator(data, tmp_path / "third.ledger").close()
        (said,) = told()
        assert "third" not in said and "first.ledger has a budget" in said
        Curator(data, tmp_path / "fourth.ledger", BUDGET).close()
        (said,) = told()
        assert "first.ledger, " in said and "third.ledger have budgets" in said
        left = {path.name for path in tmp_path.iterdir() if path.name.endswith(("-wal", "-shm", "-journal"))}
        assert not left and (tmp_path / "foreign.ledger").read_bytes() == before

    def test_who_opens_a_budget_with_a_delta_of_more_than_one_in_n_is_warned(
        self, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        n = pq.read_table(data).num_rows
        for place, delta, said in (("a", 0.9 / n, 0), ("b", 1.1 / n, 1), ("b", 1.1 / n, 1)):
            Curator(data, tmp_path / f"{place}.ledger", ApproxDP(1.0, delta)).close()
            assert caplog.text.count(f"is more than one in n = {n:,}") == said

    def test_a_budget_must_have_been_opened(self, curator: Curator, data: Path, place: Path, tmp_path: Path) -> None:
        with pytest.raises(InvalidValue, match=r"'others' has no budget .*; where these are the data of '.*', moved"):
            Curator(pq.read_table(data), place, dataset="others")
        with pytest.raises(InvalidValue, match=r"'others' has no budget in [^ ]*; name a budget"):
            Curator(pa.table({"x": [1.0]}), place, dataset="others")
        with pytest.raises(LedgerUnavailable, match="there is no ledger"):
            Curator(data, tmp_path / "none.ledger")
        assert not (tmp_path / "none.ledger").exists()

    def test_a_frame_needs_a_name(self, data: Path, place: Path) -> None:
        with pytest.raises(InvalidValue, match="say dataset="):
            Curator(pq.read_table(data), place, BUDGET)
        with Curator(pq.read_table(data), place, BUDGET, dataset="patients") as curator:
            curator.release(MECHANISM, "smoker")
        assert not (place.parent / "other").exists()

    def test_a_missing_file_leaves_no_ledger_behind(self, place: Path, tmp_path: Path) -> None:
        with pytest.raises(InvalidData):
            Curator(tmp_path / "absent.parquet", place, BUDGET)
        assert not place.exists()


class TestIdempotency:
    def test_a_retry_returns_the_very_same_release(self, curator: Curator, data: Path, place: Path) -> None:
        first = curator.release(MECHANISM, "smoker", idempotency_key="q1", draws=3)
        with Curator(data, place) as later:
            again = later.release(MECHANISM, "smoker", idempotency_key="q1", draws=3)
            assert again.to_dict() == first.to_dict()
            assert np.array_equal(again.value, first.value)
            assert len(later.history()) == 1
        assert spent(place) == Fraction(float((3 * MECHANISM.profile).renyi(2)))

    def test_a_whole_posterior_comes_back_whole(self, data: Path, place: Path) -> None:
        noisy = NoisyStatistics.calibrate(BetaBernoulli(6, 12), n=N, target=PureDP(0.5))
        with Curator(data, place, PureDP(1.0)) as curator:
            first = curator.release(noisy, "smoker", idempotency_key="q")
            again = curator.release(noisy, "smoker", idempotency_key="q")
        assert again.value.mean == first.value.mean
        assert again.value.interval(0.9) == pytest.approx(first.value.interval(0.9))

    def test_another_question_under_the_same_key_is_refused(self, curator: Curator) -> None:
        curator.release(MECHANISM, "smoker", idempotency_key="q")
        for change in ({"where": "age > 40"}, {"draws": 2}, {"missing": 1.0}):
            with pytest.raises(InvalidValue, match="belongs to another request"):
                curator.release(MECHANISM, "smoker", idempotency_key="q", **change)

    def test_a_value_that_was_not_kept_cannot_come_back(self, data: Path, place: Path) -> None:
        with Curator(data, place, BUDGET, keep_values=False) as curator:
            curator.release(MECHANISM, "smoker", idempotency_key="q")
            assert curator.history()[0].release is None
            with pytest.raises(InvalidValue, match="kept only its hash"):
                curator.release(MECHANISM, "smoker", idempotency_key="q")


def test_threads_may_share_a_curator(curator: Curator) -> None:
    threads = [threading.Thread(target=curator.release, args=(MECHANISM, "smoker")) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [entry.state for entry in curator.history()] == [State.COMMITTED] * 5


DIE = """
import os, signal, sys
from sottovoce.service.curator import Curator, RecordedRelease, Unrecorded, readable_records as records
from sottovoce.service.ledger import Ledger
from sottovoce.mechanisms import DiffusedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.records.tables import Table

def die(*args, **options):
    os.kill(os.getpid(), signal.SIGKILL)

def dying_after(function):
    def wrapped(*args, **options):
        function(*args, **options)
        die()
    return wrapped

def release(data, place, stage, weight):
    match stage:
        case "after the reserve":
            Ledger.reserve = dying_after(Ledger.reserve)
        case "while reading":
            Table.read = die
        case "before the commit":
            Ledger.commit = die
        case "after the commit":
            Ledger.commit = dying_after(Ledger.commit)
    with Curator(data, place) as curator:
        mechanism = DiffusedPosterior(BetaBernoulli(6, 12), 100, float(weight))
        curator.release(mechanism, "smoker", idempotency_key="q")

data, weight, *stages = sys.argv[1:]
for stage in stages:
    if (child := os.fork()) == 0:
        release(data, f"{data}-{stage}.ledger", stage, weight)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
STAGES = ["after the reserve", "while reading", "before the commit", "after the commit"]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of four ledgers, each left by a process that was killed at one stage of a release."""
    data = write_patients(tmp_path_factory.mktemp("killed"))
    for stage in STAGES:
        Curator(data, f"{data}-{stage}.ledger", BUDGET).close()
    told = told_by(DIE, data, repr(MECHANISM.data_weight), *STAGES)
    assert told.split() == [str(-signal.SIGKILL)] * len(STAGES), told
    return data


@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_process_leaves_its_charge_and_never_more(killed: Path, stage: str) -> None:
    place = Path(f"{killed}-{stage}.ledger")
    assert spent(place) == COST
    with Curator(killed, place) as curator:
        (entry,) = curator.history()
        if stage == "after the commit":
            # The answer never left, but it is in the ledger: the retry gets it, at no further cost.
            release = curator.release(MECHANISM, "smoker", idempotency_key="q")
            assert release.to_dict() == entry.to_dict()["release"]
        else:
            assert [pending.id for pending in curator.pending()] == [entry.id]
            with pytest.raises(EntryPending):
                curator.release(MECHANISM, "smoker", idempotency_key="q")
            with Ledger(place) as ledger:
                ledger.recover(entry.id, note="killed")
            assert curator.pending() == []
    assert spent(place) == COST


class TestSeveralPeople:
    def test_a_part_is_charged_together_with_the_whole(self, curator: Curator) -> None:
        ada = curator.open_part("ada", RenyiDP(order=2, epsilon=0.3))
        made = curator.draft(MECHANISM, "smoker", part=ada, who="ada", about={"query": "theta"})
        assert isinstance(made, Unrecorded)
        answer = curator.record(made)
        (entry,) = curator.history()
        assert (entry.id, entry.dataset, entry.who) == (answer.entry, f"{curator.dataset}/ada", "ada")
        assert entry.request["query"] == "theta"
        assert entry.cost == entry.whole_cost == float(COST)
        assert curator.remaining(ada).epsilon == pytest.approx(0.3 - float(COST))
        assert curator.remaining().epsilon == pytest.approx(1 - float(COST))

    def test_a_draft_is_pending_until_it_is_recorded(self, curator: Curator) -> None:
        made = curator.draft(MECHANISM, "smoker")
        assert isinstance(made, Unrecorded)
        assert [entry.id for entry in curator.pending()] == [made.reservation.entry]
        curator.record(made)
        assert curator.pending() == []
        with pytest.raises(InvalidValue, match="closed already"):
            curator.record(made)

    def test_only_what_was_made_of_a_release_is_kept(self, curator: Curator) -> None:
        def halve(release: Release) -> Release:
            return dataclasses.replace(release, value={"half": release.value / 2})

        made = curator.draft(MECHANISM, "smoker", then=halve, idempotency_key="k")
        assert isinstance(made, Unrecorded)
        curator.record(made)
        again = curator.draft(MECHANISM, "smoker", then=halve, idempotency_key="k")
        assert again == RecordedRelease(made.reservation.entry, Release.from_json(made.release.to_json()))
        (entry,) = curator.history()
        assert set(Release.from_json(str(entry.release)).value) == {"half"}

    def test_a_failure_of_what_is_made_of_it_is_charged(self, curator: Curator) -> None:
        def fail(release: Release) -> Release:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            curator.draft(MECHANISM, "smoker", then=fail)
        assert [entry.state for entry in curator.history()] == [State.LOST]

    def test_a_part_of_other_data_is_refused(self, curator: Curator, data: Path, place: Path) -> None:
        with Curator(pq.read_table(data), ledger=place, budget=BUDGET, dataset="other") as other:
            part = other.open_part("ada", BUDGET)
        with pytest.raises(InvalidValue, match="no part of"):
            curator.draft(MECHANISM, "smoker", part=part)
        with pytest.raises(InvalidValue, match="no part of"):
            curator.remaining(part)


def smokers(path: Path, first: int = 0) -> Path:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"smoker": [(k + first) % 4 == 0 for k in range(N)]}), path)
    os.utime(path, ns=(10**18, 10**18))
    return path


class TestWhoseData:
    def test_every_way_to_a_file_leads_to_one_budget(self, tmp_path: Path, place: Path) -> None:
        file = smokers(tmp_path / "a" / "p.parquet")
        (tmp_path / "link.parquet").symlink_to(file)
        ways = [
            file,
            tmp_path / "link.parquet",
            tmp_path / "a",
            tmp_path / "a" / "*.parquet",
            tmp_path / "a/../a/p.parquet",
        ]
        for way in ways:
            with Curator(str(way), place, BUDGET) as curator:
                curator.release(MECHANISM, "smoker")
        assert curator.dataset == str(file.resolve())
        assert spent(place) == len(ways) * COST

    def test_two_files_of_one_name_have_two_budgets(self, tmp_path: Path, place: Path) -> None:
        files = [smokers(tmp_path / name / "p.parquet", k) for k, name in enumerate("ab")]
        values = []
        for file in files:
            with Curator(file, place, BUDGET) as curator:
                values.append(curator.release(MECHANISM, "smoker", idempotency_key="k").value)
                assert curator.remaining().epsilon == pytest.approx(float(1 - COST), rel=1e-12)
        assert values[0] != values[1]

    def test_a_given_name_is_remembered(self, data: Path, place: Path) -> None:
        with Curator(data, place, BUDGET, dataset="patients") as named:
            number = named.budget.id
        with Curator(data, place) as curator:
            assert (curator.dataset, curator.budget.id) == ("patients", number)
        with pytest.raises(InvalidValue, match="shares records with 'patients'"):
            Curator(data, place, BUDGET, dataset="again")

    def test_a_copy_of_the_ledger_is_told_of_wherever_one_goes_on(
        self, data: Path, place: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with Curator(data, place, BUDGET) as curator:
            curator.release(MECHANISM, "smoker")
        Curator(data, place).close()
        assert not caplog.records
        copy = place.with_name("copy.ledger")
        shutil.copy(place, copy)
        for one, other in ((place, copy), (copy, place)):
            caplog.clear()
            Curator(data, one).close()
            assert [record.getMessage().split(" of the budget")[0] for record in caplog.records] == [
                f"{other} has a copy"
            ]

    def test_a_folder_shares_records_with_its_files(self, tmp_path: Path, place: Path) -> None:
        first = smokers(tmp_path / "a" / "p.parquet")
        smokers(tmp_path / "a" / "q.parquet")
        Curator(tmp_path / "a", place, BUDGET).close()
        for way in (first, tmp_path / "a" / "*.parquet"):
            with pytest.raises(InvalidValue, match="shares records"):
                Curator(str(way), place, BUDGET)

    def test_other_data_under_a_name_are_refused(self, tmp_path: Path, place: Path) -> None:
        Curator(smokers(tmp_path / "a" / "p.parquet"), place, BUDGET, dataset="patients").close()
        other = smokers(tmp_path / "b" / "p.parquet", 1)
        os.utime(other, ns=(1, 1))
        with pytest.raises(InvalidData, match=r"was opened for .*a/p\.parquet"):
            Curator(other, place, BUDGET, dataset="patients")

    def test_data_that_moved_go_on_with_their_budget_and_a_warning(self, tmp_path: Path, place: Path) -> None:
        file = smokers(tmp_path / "a" / "p.parquet")
        Curator(file, place, BUDGET, dataset="patients").close()
        file.rename(tmp_path / "p.parquet")
        with pytest.warns(UserWarning, match="another place"):
            Curator(tmp_path / "p.parquet", place, dataset="patients").close()

    def test_a_file_written_again_is_noticed(self, tmp_path: Path, place: Path) -> None:
        file = smokers(tmp_path / "p.parquet")
        with Curator(file, place, BUDGET) as curator:
            curator.release(MECHANISM, "smoker")
            os.utime(smokers(file, 1), ns=(1, 1))
            with pytest.raises(InvalidData, match="written again since it was opened"):
                curator.release(MECHANISM, "smoker")
        with pytest.warns(UserWarning, match="written again"), Curator(file, place) as curator:
            curator.release(MECHANISM, "smoker")
            prints = [entry.request["data"] for entry in curator.history()]
        assert len({*prints}) == len(prints) == 2

    def test_a_budget_whose_print_held_the_size_goes_on(self, tmp_path: Path, place: Path) -> None:
        file = smokers(tmp_path / "p.parquet")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DataSource, "print", lambda self, salt, state: digest(canonical([salt, self.schema, state])))
            Curator(file, place, BUDGET).close()
        Curator(file, place).close()  # a warning would be an error
        os.utime(file, ns=(1, 1))
        with pytest.warns(UserWarning, match="written again"):
            Curator(file, place).close()

    def test_an_entry_tells_nothing_of_a_file_but_that_it_changed(self, tmp_path: Path, place: Path) -> None:
        """Receipts show the request to analysts, and the size of a CSV file tells of its records."""
        file = tmp_path / "p.csv"
        file.write_text("smoker\n" + "true\nfalse\n" * (N // 2))
        noted = []
        for ledger in (place, tmp_path / "other.ledger"):
            with Curator(file, ledger, BUDGET, types={"smoker": "boolean"}) as curator:
                curator.release(MECHANISM, "smoker")
                noted += [entry.request["data"] for entry in curator.history()]
        assert noted[0] != noted[1]
        assert all(re.fullmatch("[0-9a-f]{64}", text) for text in noted)

    def test_an_older_ledger_knew_files_by_their_names(self, data: Path, place: Path) -> None:
        Curator(pq.read_table(data), place, BUDGET, dataset="patients.parquet").close()
        with pytest.raises(InvalidValue, match="may be the same data"):
            Curator(data, place, BUDGET)
        Curator(data, place, BUDGET, dataset="patients.parquet").close()

    def test_no_records_open_no_budget(self, tmp_path: Path, place: Path) -> None:
        (tmp_path / "p.csv").write_text("smoker\n")
        with pytest.raises(InvalidData, match="has no records"):
            Curator(tmp_path / "p.csv", place, BUDGET)
        assert not list(place.parent.glob(f"{place.name}*"))
        with Ledger(place, create=True) as ledger:
            with pytest.raises(InvalidData, match="has no records"):
                Curator(tmp_path / "p.csv", place, BUDGET)
            assert ledger.budgets() == []

    def test_no_records_leave_no_tables_in_a_database(self, tmp_path: Path, postgres_url: str) -> None:
        (tmp_path / "p.csv").write_text("smoker\n")
        with pytest.raises(InvalidData, match="has no records"):
            Curator(tmp_path / "p.csv", postgres_url, BUDGET)
        with pytest.raises(LedgerUnavailable, match="there is no ledger"):
            Ledger(postgres_url)

    def test_where_n_is_a_secret_a_table_without_records_answers_as_any_other(self, tmp_path: Path) -> None:
        for name, rows in (("none", ""), ("one", "true\n")):
            (tmp_path / f"{name}.csv").write_text(f"smoker\n{rows}")
            facts = Facts(smoker=Flag())
            with Curator(
                tmp_path / f"{name}.csv", tmp_path / f"{name}.ledger", BUDGET, facts=facts, n="private", time_grid=0.001
            ) as curator:
                assert len(curator.proportion("smoker", spend=0.5).table) == 1


def test_a_release_can_leave_on_a_grid_of_time(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handed over after one step, or two or four, however quick it was; a failure too."""
    moments, waited = iter([10.0, 10.125, 20.0, 21.25, 30.0, 30.25]), list[float]()
    with Curator(data, tmp_path / "paced.ledger", BUDGET, time_grid=0.5) as curator:
        monkeypatch.setattr(records, "time", SimpleNamespace(monotonic=moments.__next__, sleep=waited.append))
        for _ in range(2):
            paid = curator.reserve(MECHANISM, "smoker")
            curator.make_all([paid])
        paid = curator.reserve(MECHANISM, "smoker")
        monkeypatch.setattr(type(MECHANISM), "release", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            curator.make_all([paid])
        assert waited == [0.375, 0.75, 0.25]
    with pytest.raises(InvalidValue, match="time_grid"):
        Curator(data, tmp_path / "other.ledger", BUDGET, time_grid=0.0)


def test_a_budget_may_be_given_as_its_text(tmp_path: Path) -> None:
    data = pa.table({"smoker": [True, False] * 50})
    with Curator(data, tmp_path / "l", "approx:1,1e-6", dataset="d") as curator:
        assert curator.budget.promise == ApproxDP(1.0, 1e-6)
    with Curator(data, tmp_path / "l", "approx:1,1e-6", dataset="d") as curator:
        assert curator.share_left() == 1
    with pytest.raises(InvalidValue):
        Curator(data, tmp_path / "l", "nonsense", dataset="d")
