"""The service: all that the server does, whatever face it is asked through."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import scipy.optimize  # noqa: F401 - which the first to ask must not wait for

from sottovoce.faces.client.errors import NotAllowed, NotFound
from sottovoce.faces.client.reach import LIMITED, reach
from sottovoce.faces.client.response_bodies import DatasetBody, LeftBody, PlanAnswer, ReceiptBody, RemainingBody
from sottovoce.faces.server.config import Config
from sottovoce.faces.server.datasets import Dataset
from sottovoce.faces.server.group_commit_writer import GroupCommitWriter
from sottovoce.faces.server.metrics import Metrics
from sottovoce.faces.server.pacing import TickGrid
from sottovoce.faces.server.paying import PaidAnswers, plain_of
from sottovoce.faces.server.plans import choice_of, priced
from sottovoce.faces.server.questions import ServerQuestion, model_of, target_of
from sottovoce.faces.server.readiness import Readiness
from sottovoce.faces.server.receipts import Signer
from sottovoce.faces.server.release_workers import ReleaseWorkers, quietly
from sottovoce.faces.server.response_builder import left_of
from sottovoce.faces.server.sharing import Sharing
from sottovoce.faces.server.tokens import SESSION, Caller, Tokens, caller_of, caller_with
from sottovoce.faces.server.tracing import tracing_from_environment
from sottovoce.faces.server.verbs import VerbQuestion, contrast_of, told_as, told_of
from sottovoce.faces.server.work_queue import WorkQueue
from sottovoce.inference.cells.intervals import checked_level
from sottovoce.mechanisms import Release
from sottovoce.mechanisms.mechanism_choice import imagined_mean
from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt, LedgerUnavailable
from sottovoce.privacy.shares import percent
from sottovoce.records.facts import dummy_csv
from sottovoce.service.answers.budget_account import like_the_last
from sottovoce.service.answers.predictions import Row
from sottovoce.service.answers.together import told_together
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Budget, Entry, Ledger, State

if TYPE_CHECKING:
    from sottovoce.faces.server.oidc import Provider

__all__ = ["Caller", "Service"]

_VISITORS = 4
"""How many may wait for the provider of identities at once: each holds a thread of this many."""
_WHY = {
    State.PENDING: "it is being made, or the process that made it died",
    State.LOST: "it was lost while it was made",
}


class Service(PaidAnswers):
    """Data sets, budgets and tokens behind one door.

    Every method takes the caller and checks what their token allows; none knows of HTTP. Methods block, except
    `ask`, which sees to it that answers leave on a grid of time; `run` runs the others from a coroutine.

    Parameters
    ----------
    config
        What the administrator decided. Opens the ledger and its budgets where they are not open yet.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.metrics, self.grid = Metrics(), TickGrid(config.limits.answer_grid)
        with contextlib.ExitStack() as opened:
            self.signer = Signer(config.signing_key)
            self.tracing = tracing_from_environment()
            opened.callback(self.tracing.close)
            if config.oidc is not None:
                self.provider  # noqa: B018 - what is not installed is told now
            self.tokens = opened.enter_context(Tokens(config.tokens))
            self.ledger = opened.enter_context(Ledger(config.ledger, create=True, anchor=config.anchor))
            self._datasets: dict[str, Dataset] = {}
            for name, item in config.datasets.items():
                self._datasets[name] = Dataset(item, self.ledger, list(config.analysts.values()))
                opened.callback(self._datasets[name].close)
            self.readiness = Readiness(self._datasets)
            opened.callback(self.readiness.close)
            # Whoever is refused must not wait for work on the data: it is built, checked, charged and told elsewhere
            # than where records are read.
            threads = config.limits.threads
            self._makers = ReleaseWorkers(threads)
            opened.callback(self._makers.close)
            self._clerk = GroupCommitWriter(self.ledger)
            opened.callback(self._clerk.close)
            # What a released posterior says of every row may take a while; it is paid for and recorded by then.
            self._tellers = ThreadPoolExecutor(min(threads, 4), thread_name_prefix="tell")
            opened.callback(self._tellers.shutdown)
            self._visitors = ThreadPoolExecutor(_VISITORS, thread_name_prefix="provider")
            opened.callback(self._visitors.shutdown)
            # Calibration takes a processor for a while and must not keep answers waiting.
            self._builders, self._planners = (
                WorkQueue(min(threads, 8), 4096),
                WorkQueue(2, config.limits.plans, apart=True),
            )
            opened.callback(self._builders.close)
            opened.callback(self._planners.close)
            self.sharing = Sharing(self)
            opened.callback(self.sharing.close)
            self._opened = opened.pop_all()

    # Who asks.

    @functools.cached_property
    def provider(self) -> Provider:
        """The provider of identities; there is one where the configuration has ``[oidc]``."""
        from sottovoce.faces.server.oidc import Provider  # noqa: PLC0415 - an extra

        if self.config.oidc is None:
            raise NotFound("this server has no sign-in; come with a token")
        return Provider(self.config.oidc)

    def sign_in(self, code: str, verifier: str, nonce: str) -> str:
        """Return the identity of a token for the session of who came back from the provider with a code."""
        role, person = self.provider.sign_in(code, verifier, nonce)
        return self.tokens.sign_in(role.analyst, role.scopes, person, SESSION).id

    def authenticate(self, text: str) -> Caller:
        """Return whose token this is, or raise `NotAuthenticated`."""
        return caller_of(self.tokens.authenticate(text), self.config)

    async def admitted(self, text: str) -> Caller:
        """Return whose token this is, also a provider's: at once where tokens lie in a file, else on a thread."""
        result: Caller
        if self.config.oidc is not None and self.provider.is_jwt(text):
            result = await self.at_provider(self._of_provider, text)
        elif self.tokens.local:
            result = self.authenticate(text)
        else:
            result = await self.run(self.authenticate, text)
        return result

    async def at_provider(self, work: Callable[..., Any], *arguments: object) -> Any:
        """Run what may wait for the provider of identities on threads where nobody else waits."""
        return await asyncio.get_running_loop().run_in_executor(self._visitors, quietly, work, *arguments)

    def _of_provider(self, text: str) -> Caller:
        return caller_with(*self.provider.bearer(text), self.config)

    def caller(self, token: str) -> Caller:
        """Return the caller of a token's identity, checked anew: for a session that logged in with it before."""
        return caller_of(self.tokens.find(token), self.config)

    def require(self, caller: Caller, scope: str) -> None:
        """Raise `NotAllowed` unless the caller's token has this scope."""
        if scope not in caller.scopes:
            raise NotAllowed(
                f"this takes a token with the scope {scope!r}; yours has {', '.join(sorted(caller.scopes))}"
            )

    def _dataset(self, caller: Caller, scope: str, name: str) -> Dataset:
        self.require(caller, scope)
        if name not in caller.datasets:
            raise NotFound(f"there is no data set {name!r} for you")
        return self._datasets[name]

    def curator_of(self, caller: Caller, name: str) -> Curator:
        """Return the curator of a data set within the caller's reach."""
        return self._dataset(caller, "read", name).curator

    def part_of(self, caller: Caller, scope: str, name: str) -> Budget | None:
        """Return the caller's own budget on a data set; None where they have none."""
        return self._dataset(caller, scope, name).parts.get(caller.analyst)

    # What is there.

    def datasets(self, caller: Caller) -> list[DatasetBody]:
        """Return the public facts of every data set within the caller's reach."""
        self.require(caller, "read")
        return [item.facts() for name, item in self._datasets.items() if name in caller.datasets]

    def dataset(self, caller: Caller, name: str) -> DatasetBody:
        """Return the public facts of one data set."""
        return self._dataset(caller, "read", name).facts()

    def remaining(self, caller: Caller, name: str) -> RemainingBody:
        """Return what is left: of the caller's own budget, where they have one, and of the whole."""
        return self._remaining(caller, self._dataset(caller, "read", name))

    def _remaining(self, caller: Caller, dataset: Dataset) -> RemainingBody:
        part = dataset.parts.get(caller.analyst)
        *of_part, full = self.ledger.totals([dataset.budget] if part is None else [part, dataset.budget])
        yours = None if part is None else left_of(part, *of_part)
        return {"yours": yours, "whole": left_of(dataset.budget, full)}

    def left(self, caller: Caller, name: str) -> LeftBody:
        """Return what is left in words: to the caller, where they have a budget of their own, and of the whole."""
        dataset = self._dataset(caller, "read", name)
        return {"yours": self._left(caller, dataset), "whole": dataset.curator.left()}

    def _left(self, caller: Caller, dataset: Dataset) -> str | None:
        """Return what the caller can still spend of their own budget: no more than the whole pays for."""
        part = dataset.parts.get(caller.analyst)
        if part is None:
            return None
        share, limited = reach(self._remaining(caller, dataset))
        if not limited:
            return dataset.curator.left(part)
        return f"{percent(share)} left, {LIMITED}{like_the_last(share * part.limit, self.ledger.last_cost(part))}"

    def dummy(self, caller: Caller, name: str, n: int, seed: int) -> str:
        """Return made-up records with the shape that the facts say, as CSV: nothing of the data is in them."""
        facts = self._dataset(caller, "read", name).config.facts
        return dummy_csv(facts, n, seed)

    def history(self, caller: Caller, name: str) -> list[dict[str, Any]]:
        """Return the caller's own entries, newest first; everyone's for an administrator."""
        dataset = self._dataset(caller, "read", name)
        everyone = "admin" in caller.scopes
        mine = dataset.parts.get(caller.analyst)
        return [
            _shown(entry, name)
            for entry in reversed(dataset.curator.history())
            if everyone or (mine is not None and entry.budget == mine.id)
        ]

    def receipt(self, caller: Caller, name: str, number: int) -> ReceiptBody:
        """Return the signed receipt of one committed entry, the caller's own or, for an administrator, anyone's."""
        dataset, owner, entry = self._committed(caller, name, number)
        return self._saying(dataset, owner, entry).receipt(entry)

    def _committed(self, caller: Caller, name: str, number: int) -> tuple[Dataset, str, Entry]:
        dataset = self._dataset(caller, "read", name)
        owners = list(dataset.parts) if "admin" in caller.scopes else [caller.analyst]
        for owner in owners:
            entry = self.ledger.find_entry(dataset.parts[owner], number) if owner in dataset.parts else None
            if entry is not None and entry.state is State.COMMITTED:
                return dataset, owner, entry
            if entry is not None and entry.state is not State.VOID:
                raise NotFound(f"entry {number} of {name} has no answer, and counts as spent: {_WHY[entry.state]}")
        raise NotFound(f"there is no answer {number} of {name} for you")

    # What can be asked.

    def plan(
        self,
        caller: Caller,
        name: str,
        question: ServerQuestion,
        mean: object = None,
        only: Collection[str] | None = None,
    ) -> PlanAnswer:
        """Return what each mechanism allowed would promise, cost and tell. Reads no record and spends nothing.

        `only` leaves the other mechanisms out, where a caller cannot wait for all of them.
        """
        dataset = self._dataset(caller, "plan", name)
        model = model_of(question.system, question.column, question.where, dataset.config)
        target = target_of(question.target)
        imagined = imagined_mean(model.system) if mean is None else mean
        budgets = {"yours": dataset.parts.get(caller.analyst), "whole": dataset.budget}
        choices = []
        for mechanism in (m for m in dataset.config.names_for(model.system) if only is None or m in only):
            choice, built = choice_of(mechanism, model.system, dataset.curator.n, target, imagined)
            if built is not None:
                periods = dataset.curator.charged_to(built, question.where).get("periods")
                choice["price"] = {
                    word: budget and priced(built.profile, budget, self.ledger.spent(budget, periods))
                    for word, budget in budgets.items()
                }
            choices.append(choice)
        choices.sort(key=_expected)
        return {
            "dataset": name,
            "n": dataset.curator.n,
            "system": model.system.to_dict(),
            "target": target.to_dict(),
            "mean": imagined,
            "choices": choices,
            "remaining": self._remaining(caller, dataset),
        }

    async def again(
        self,
        caller: Caller,
        name: str,
        number: int,
        rows: tuple[int, int] | None = None,
        predict: Sequence[Row] = (),
        level: float = 0.95,
        others: Sequence[int] = (),
    ) -> dict[str, Any]:
        """Return an answer by verb that was paid for before, the caller's own or, for an administrator, anyone's.

        `rows` asks for two of its rows beside each other, as ``contrast``; `predict` for what is expected of rows;
        `others` for what it and other answers to the same question tell together.
        """
        return await self._told(self._again, caller, name, number, rows, predict, checked_level(level), others)

    async def _repeated(self, caller: Caller, name: str, entry: int, question: VerbQuestion) -> dict[str, Any]:
        shown = await self.again(caller, name, entry, None, question.predict, question.level)
        return shown if question.table else shown | {"table": None}

    def _again(
        self,
        caller: Caller,
        name: str,
        number: int,
        rows: tuple[int, int] | None,
        predict: Sequence[Row],
        level: float,
        others: Sequence[int] = (),
    ) -> dict[str, object]:
        dataset, owner, entry = self._committed(caller, name, number)
        if entry.release is None or "verb" not in entry.request:
            raise NotFound(f"answer {number} of {name} cannot be shown again; its entry is in the history")
        release = Release.from_json(entry.release)
        said = plain_of(self._said(dataset, owner, entry, release))
        said["remaining"] = self._remaining(caller, dataset)
        said |= told_of(release, entry, dataset.parts[owner], level=level, predict=predict)
        if others:
            if predict:
                raise InvalidValue("answers to questions are told together, and rows are predicted by a regression")
            paid = [self._committed(caller, name, other) for other in others]
            every = [(entry, dataset.parts[owner]), *((it, dataset.parts[its]) for _, its, it in paid)]
            answer = told_together(every, level)
            release = answer.release
            said |= told_as(answer) | {"release": release.to_dict(), "together": [number, *others]}
        return said if rows is None else said | {"contrast": contrast_of(release, *rows, level)}

    async def planning(self, caller: Caller, work: Callable[..., Any], *arguments: object) -> Any:
        """Run long work on public things, such as `plan`: one at a time of a token, given up when nobody waits."""
        return await self._planners.run(caller.token, quietly, work, *arguments)

    def spent_shares(self, name: str) -> list[tuple[str, float]]:
        """Return the share spent of a data set's whole budget, named by the empty text, and of every analyst's part."""
        dataset = self._datasets[name]
        budgets = [("", dataset.budget), *dataset.parts.items()]
        return [(who, float(self.ledger.spent(it)) / it.limit if it.limit else 1.0) for who, it in budgets]

    def metrics_text(self) -> str:
        """Return the counters, and how much of each budget is spent, in Prometheus' text format."""
        gauges: list[tuple[str, str, dict[str, str], float]] = []
        for name, dataset in self._datasets.items():
            of_source = {"dataset": name}
            up = float(self.readiness.reachable(name))
            gauges.append(("source_up", "Whether the records answered when last looked at.", of_source, up))
            if dataset.curator.n is not None:
                gauges.append(("source_rows", "Records, where that is public.", of_source, float(dataset.curator.n)))
            for analyst, share in self.spent_shares(name):
                gauges.append(("spent_share", "Share of a budget spent.", {"dataset": name, "analyst": analyst}, share))
            for analyst, budget in [("", dataset.budget), *dataset.parts.items()]:
                for period, total in self.ledger.spent_by_period(budget).items():
                    labels = {"dataset": name, "analyst": analyst, "period": period}
                    share = float(total) / budget.limit if budget.limit else 1.0
                    gauges.append(("period_spent_share", "Share of a period's budget spent.", labels, share))
        return self.metrics.text(gauges)

    def problem(self) -> str | None:
        """Return why answers would fail: of the ledger, or of any data set's records; None where all is well."""
        try:
            for dataset in self._datasets.values():
                self.ledger.spent(dataset.budget)
        except (LedgerUnavailable, LedgerCorrupt, InvalidValue):
            return "the ledger does not answer"
        return self.readiness.problem()

    def stop(self) -> None:
        """Give up what was not paid for: plans, and questions still being built. Answers under way go on."""
        self._planners.stop()
        self._builders.stop()

    def close(self) -> None:
        """Let go of everything."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _expected(choice: dict[str, Any]) -> float:
    """Return how far off a choice is expected to be; those without a forecast come last."""
    forecast = choice.get("forecast")
    return float("inf") if forecast is None or forecast["expected_kl"] is None else float(forecast["expected_kl"])


def _shown(entry: Entry, dataset: str) -> dict[str, object]:
    """Return an entry without the moment it closed: with the one it opened, that would time the answer."""
    shown = entry.to_dict() | {"dataset": dataset, "analyst": entry.who}
    return {name: value for name, value in shown.items() if name not in ("closed_at", "who")}
