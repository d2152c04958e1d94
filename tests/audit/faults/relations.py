"""Faults of relations: claims about one record more or less, and a number of records that is no secret after all."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from audit.faults import Patch, fault
from sottovoce.audit.checks import CheckResult
from sottovoce.audit.checks.result import attempt, verdict
from sottovoce.inference.cells import cell_noise
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.group_privacy import GroupOfTwo
from sottovoce.privacy.pairs import GammaShapePairs, LikelihoodRatioProfile
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE
from sottovoce.records.readings import Look
from sottovoce.records.tables.table import Table
from sottovoce.service.curator import Curator

SAMPLE, SUMS = "one record more costs a sample what is claimed", "one record more moves noisy sums as far as is claimed"
GROUP, KEPT = "replacing is a group of two", "a claim keeps its relation"
SECRET, SERVED = "a secret number of records shows nowhere", "a server keeps the number of records a secret"

OFFICE = """
[limits]
answer_grid = 0.001
[datasets.patients]
source = "patients.parquet"
budget = "renyi:4,9"
n = "private"
[datasets.patients.columns.smoker]
kind = "flag"
[analysts.eve]
budgets = { patients = "50%" }
"""


def _told(n: int) -> list[str]:
    """Return what a server tells of a data set, but for what it releases."""
    from sottovoce.faces.server import read_config
    from sottovoce.faces.server.budget_meaning import Imagining, balance, explanation
    from sottovoce.faces.server.questions import ServerQuestion
    from sottovoce.faces.server.service import Service

    question = ServerQuestion(
        system={"kind": "beta-bernoulli", "alpha": 9, "beta": 9}, target="renyi:4,0.5", column="smoker"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds = pa.schema([("smoker", pa.bool_())])
        pq.write_table(pa.table({"smoker": [k % 2 == 0 for k in range(n)]}, schema=kinds), folder / "patients.parquet")
        (folder / "server.toml").write_text(OFFICE)
        with Service(read_config(folder / "server.toml")) as service:
            service._datasets["patients"].curator._time_grid = 1e-3  # what is told is told after a second, too
            _, token = service.tokens.create("eve", ["read", "plan", "ask"])
            caller = service.authenticate(token)
            told = [service.datasets(caller), explanation(service, caller, "patients")]
            told += [service.plan(caller, "patients", question, only=["diffused", "laplace", "direct"])]
            told += [balance(service, caller, "patients", "proportion of smoker", Imagining())]
            answer = asyncio.run(service.ask(caller, "patients", replace(question, mechanism="diffused")))
            told += [{name: answer[name] for name in ("dataset", "summary", "cost", "remaining")}]
            said = json.loads(answer["receipt"]["signed"])
            told += [{name: said[name] for name in ("n", "profile", "cost", "budget")}, said["question"]["mechanism"]]
    return [str(one) for one in told]


def served() -> CheckResult:
    """Hold what a server tells of two tables against each other."""

    def body() -> tuple[bool, str]:
        first, second = _told(40), _told(4003)
        problems = [f"{b[:160]}" for a, b in zip(first, second, strict=True) if a != b]
        return verdict(problems, f"{len(first)} answers, the same whatever the number of records")

    return attempt(SERVED, body)


# Claims.


@fault("the shape pair taken at the sum of the prior", "add and remove", SAMPLE)
def _whole_prior(patch: Patch) -> None:
    def profile(self, data_weight, prior_weight):
        pairs = GammaShapePairs(prior_weight * (self.alpha + self.beta), data_weight)
        return LikelihoodRatioProfile((pairs,), relation=ADD_REMOVE)

    patch.setattr(BetaBernoulli, "_open_profile", profile)


@fault("the larger prior parameter taken for the smaller", "add and remove", SAMPLE)
def _larger(patch: Patch) -> None:
    def profile(self, data_weight, prior_weight):
        pairs = GammaShapePairs(prior_weight * max(self.alpha, self.beta), data_weight)
        return LikelihoodRatioProfile((pairs,), relation=ADD_REMOVE)

    patch.setattr(BetaBernoulli, "_open_profile", profile)


@fault("the count of one record more forgotten", "add and remove", SUMS)
def _uncounted(patch: Patch) -> None:
    honest = cell_noise._moves

    def moves(reading, noise, power, relation):
        found = honest(reading, noise, power, relation)
        return [(0.0, sums) for _, sums in found] if relation.hides_n else found

    patch.setattr(cell_noise, "_moves", moves)


@fault("a look's own length taken for half of a difference", "add and remove", SUMS)
def _half(patch: Patch) -> None:
    patch.setattr(Look, "added", lambda self, scales: self.joint(scales) / 2)


@fault("replacing taken for two releases: √2 instead of 2", "relation", GROUP)
def _root_two(patch: Patch) -> None:
    patch.setattr(GaussianProfile, "_twice", lambda self: replace(self, mu=math.sqrt(2) * self.mu))
    patch.setattr(GroupOfTwo, "gdp", lambda self: math.sqrt(2) * self.one.gdp())


@fault("the δ of the second step not weighed by e^ε", "relation", GROUP)
def _plain_sum(patch: Patch) -> None:
    patch.setattr(GroupOfTwo, "_log_delta", lambda self, epsilon: math.log(2) + self.one._log_delta(epsilon / 2))


@fault("the relation dropped in a JSON round trip", "profile", KEPT)
def _dropped(patch: Patch) -> None:
    honest = Profile.to_dict

    def to_dict(self):
        return {name: value for name, value in honest(self).items() if name != "relation"}

    patch.setattr(Profile, "to_dict", to_dict)


@fault("the relation of a promise dropped in its JSON", "promise", KEPT)
def _forgotten(patch: Patch) -> None:
    honest = Promise.to_dict

    def to_dict(self):
        return {name: value for name, value in honest(self).items() if name != "relation"}

    patch.setattr(Promise, "to_dict", to_dict)


@fault("a claim about one replaced spent in a budget about one more", "filter", KEPT)
def _mixed(patch: Patch) -> None:
    from sottovoce.privacy import filter as filters

    patch.setattr(filters, "check_same", lambda *_: None)


# Secrets.


@fault("n told in an error", "curator", SECRET)
def _in_an_error(patch: Patch) -> None:
    def check(self, mechanism, *_, **__):
        if mechanism.n != self.budget.n:
            raise InvalidValue(f"the mechanism is for n={mechanism.n} and there are {self._table.count()} records")

    patch.setattr(Curator, "check", check)


@fault("n told in a log line", "curator", SECRET)
def _in_a_log(patch: Patch) -> None:
    honest = Table.read

    def read(self, *arguments, **options):
        seen = honest(self, *arguments, **options)
        logging.getLogger("sottovoce.records.tables").debug("read %d records", seen.n)
        return seen

    patch.setattr(Table, "read", read)


@fault("n told in a plan", "noisy cells", SECRET)
def _in_a_plan(patch: Patch) -> None:
    honest = Curator.mechanism_for

    def mechanism_for(self, question, spend=0.05, part=None):
        made = honest(self, question, spend, part)
        return NoisyCells(
            made.system.with_bins(self._table.count(), 1.0), None, made.noise, made.scale * (1 + self._table.count())
        )

    patch.setattr(Curator, "mechanism_for", mechanism_for)


@fault("an empty table refused", "tables", SECRET)
def _empty(patch: Patch) -> None:
    honest = Table.read

    def read(self, *arguments, **options):
        seen = honest(self, *arguments, **options)
        if seen.n == 0:
            raise InvalidValue("there are no records")
        return seen

    patch.setattr(Table, "read", read)


@fault("n noted in the ledger", "ledger", SECRET)
def _noted(patch: Patch) -> None:
    honest = Curator.price

    def price(self, *arguments, about=None, **options):
        return honest(self, *arguments, about={**(about or {}), "records": self._table.count()}, **options)

    patch.setattr(Curator, "price", price)


@fault("n told in a server's schema", "server", SERVED)
def _in_a_schema(patch: Patch) -> None:
    from sottovoce.faces.server.datasets import Dataset

    honest = Dataset.facts
    patch.setattr(Dataset, "facts", lambda self: honest(self) | {"n": self.curator._table.count()})


@fault("a server plans with the true n", "server", SERVED)
def _served_plan(patch: Patch) -> None:
    from sottovoce.faces.server import service

    honest = service.choice_of

    def choice_of(name, system, n, target, mean):
        return honest(name, system, _LENGTH[0], target.under(REPLACE_ONE), mean)

    patch.setattr(service, "choice_of", choice_of)
    counted = Table.count

    def count(self, person=None):
        _LENGTH[0] = counted(self, person)
        return _LENGTH[0]

    patch.setattr(Table, "count", count)
    opened = Curator.__init__

    def init(self, data, *arguments, **options):
        data.count()
        opened(self, data, *arguments, **options)

    patch.setattr(Curator, "__init__", init)


_LENGTH = [1]
