"""The service: all that the server does, whatever face it is asked through."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import scipy.optimize  # noqa: F401 - which the first to ask must not wait for

from sottovoce.curator import Answer, Draft, Paid, Priced
from sottovoce.facts import dummy_csv
from sottovoce.ledger import Budget, Entry, Ledger, State
from sottovoce.ledger.chain import Written, canonical, canonical_object
from sottovoce.ledger.changes import totalling
from sottovoce.ledger.charging import what_is_left
from sottovoce.ledger.grouping import Change
from sottovoce.mechanisms import Release
from sottovoce.mechanisms.choices import imagined_mean
from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt, LedgerUnavailable
from sottovoce.server.callers import Caller, caller_of
from sottovoce.server.clerk import Clerk
from sottovoce.server.config import Config
from sottovoce.server.datasets import Dataset
from sottovoce.server.errors import AnswerLost, NotAllowed, NotFound
from sottovoce.server.lines import Line
from sottovoce.server.logs import log_failure
from sottovoce.server.metrics import Metrics
from sottovoce.server.orders import Asking
from sottovoce.server.pacing import Grid
from sottovoce.server.plans import choice_of, priced, summary_of
from sottovoce.server.questions import Question, model_of, target_of
from sottovoce.server.receipts import Signer, receipt_of
from sottovoce.server.tokens import Tokens
from sottovoce.server.verbs import contrast_of, told_of

__all__ = ["Caller", "Service"]

_REMEMBERED = 1024
"""How many questions are known with what was built for them."""
_LOST = "the answer was lost after it was charged; the history has its entry"


class Service:
    """Data sets, budgets and tokens behind one door.

    Every method takes the caller and checks what their token allows; none knows of HTTP. Methods block, except
    `ask`, which sees to it that answers leave on a grid of time; `run` runs the others from a coroutine.

    Parameters
    ----------
    config
        What the administrator decided. Opens the ledger and its budgets where they are not open yet.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.metrics, self.grid = Metrics(), Grid(config.limits.answer_grid)
        with contextlib.ExitStack() as opened:
            self.signer = Signer(config.signing_key)
            self.tokens = opened.enter_context(Tokens(config.tokens))
            self.ledger = opened.enter_context(Ledger(config.ledger, create=True, anchor=config.anchor))
            self._under_way: set[asyncio.Task[Any]] = set()
            self._datasets: dict[str, Dataset] = {}
            # What was built once for a question: neither data nor budgets change while the server runs.
            self._orders: dict[tuple[int, type, str], Priced] = {}
            for name, one in config.datasets.items():
                self._datasets[name] = Dataset(one, self.ledger, list(config.analysts.values()))
                opened.callback(self._datasets[name].close)
            # Whoever is refused must not wait for work on the data: it is built, checked, charged and told elsewhere
            # than where records are read.
            threads = config.limits.threads
            self._readers = ThreadPoolExecutor(threads, thread_name_prefix="read")
            opened.callback(self._readers.shutdown)
            self._clerk = Clerk(self.ledger)
            opened.callback(self._clerk.close)
            # What a released posterior says of every row may take a while; it is paid for and recorded by then.
            self._tellers = ThreadPoolExecutor(min(threads, 4), thread_name_prefix="tell")
            opened.callback(self._tellers.shutdown)
            # Calibration takes a processor for a while and must not keep answers waiting.
            self._builders, self._planners = Line(min(threads, 8), 4096), Line(2, config.limits.plans)
            opened.callback(self._builders.close)
            opened.callback(self._planners.close)
            self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
            self._opened = opened.pop_all()

    # Who asks.

    def authenticate(self, text: str) -> Caller:
        """Return whose token this is, or raise `NotAuthenticated`."""
        return caller_of(self.tokens.authenticate(text), self.config)

    async def admitted(self, text: str) -> Caller:
        """Return whose token this is, as `authenticate`: at once where the tokens lie in a file, else on a thread."""
        if self.tokens.local:
            return self.authenticate(text)
        found: Caller = await self.run(self.authenticate, text)
        return found

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

    # What is there.

    def datasets(self, caller: Caller) -> list[dict[str, Any]]:
        """Return the public facts of every data set within the caller's reach."""
        self.require(caller, "read")
        return [one.facts() for name, one in self._datasets.items() if name in caller.datasets]

    def dataset(self, caller: Caller, name: str) -> dict[str, Any]:
        """Return the public facts of one data set."""
        return self._dataset(caller, "read", name).facts()

    def remaining(self, caller: Caller, name: str) -> dict[str, Any]:
        """Return what is left: of the caller's own budget, where they have one, and of the whole."""
        return self._remaining(caller, self._dataset(caller, "read", name))

    def _remaining(self, caller: Caller, dataset: Dataset) -> dict[str, Any]:
        own = dataset.parts.get(caller.analyst)
        *of_part, whole = self.ledger.totals([dataset.budget] if own is None else [own, dataset.budget])
        yours = None if own is None else self._left(own, *of_part)
        return {"yours": yours, "whole": self._left(dataset.budget, whole)}

    def _left(self, budget: Budget, spent: Fraction) -> dict[str, Any]:
        return {
            "budget": budget.promise.to_dict(),
            "filter": dict(budget.filter),
            "remaining": what_is_left(budget, spent).to_dict(),
            "spent": float(spent) / budget.limit if budget.limit else 1.0,
        }

    def left(self, caller: Caller, name: str) -> dict[str, str | None]:
        """Return what is left in words: of the caller's own budget, where they have one, and of the whole."""
        dataset = self._dataset(caller, "read", name)
        own = dataset.parts.get(caller.analyst)
        return {"yours": None if own is None else dataset.curator.left(own), "whole": dataset.curator.left()}

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

    def receipt(self, caller: Caller, name: str, number: int) -> dict[str, Any]:
        """Return the signed receipt of one committed entry, the caller's own or, for an administrator, anyone's."""
        dataset, owner, entry = self._committed(caller, name, number)
        return self._signed(dataset, owner, entry)

    def _committed(self, caller: Caller, name: str, number: int) -> tuple[Dataset, str, Entry]:
        dataset = self._dataset(caller, "read", name)
        owners = list(dataset.parts) if "admin" in caller.scopes else [caller.analyst]
        for owner in owners:
            entry = self.ledger.find_entry(dataset.parts[owner], number) if owner in dataset.parts else None
            if entry is not None and entry.state is State.COMMITTED:
                return dataset, owner, entry
        raise NotFound(f"there is no answer {number} of {name} for you")

    def _signed(self, dataset: Dataset, analyst: str, entry: Entry) -> dict[str, Any]:
        part = dataset.parts[analyst]
        return self.signer.sign(receipt_of(entry, part, dataset.budget, issuer=self.config.title, analyst=analyst))

    # What can be asked.

    def plan(
        self,
        caller: Caller,
        name: str,
        question: Question,
        mean: Any = None,
        only: Collection[str] | None = None,
    ) -> dict[str, Any]:
        """Return what each mechanism allowed would promise, cost and tell. Reads no record and spends nothing.

        `only` leaves the other mechanisms out, where a caller cannot wait for all of them.
        """
        dataset = self._dataset(caller, "plan", name)
        model = model_of(question.system, question.column, question.where, dataset.config)
        target = target_of(question.target)
        imagined = imagined_mean(model.system) if mean is None else mean
        budgets = {"yours": dataset.parts.get(caller.analyst), "whole": dataset.budget}
        spent = {word: self.ledger.spent(budget) for word, budget in budgets.items() if budget is not None}
        choices = []
        for mechanism in (m for m in dataset.config.names_for(model.system) if only is None or m in only):
            choice, made = choice_of(mechanism, model.system, dataset.budget.n, target, imagined)
            if made is not None:
                choice["price"] = {
                    word: budget and priced(made.profile, budget, spent[word]) for word, budget in budgets.items()
                }
            choices.append(choice)
        choices.sort(key=_expected)
        return {
            "dataset": name,
            "n": dataset.budget.n,
            "system": model.system.to_dict(),
            "target": target.to_dict(),
            "mean": imagined,
            "choices": choices,
            "remaining": self._remaining(caller, dataset),
        }

    async def ask(self, caller: Caller, name: str, question: Asking, key: str | None = None) -> dict[str, Any]:
        """Answer a question: charge it durably, draw, wait for the next tick, record, and only then say so.

        What was made from the data is neither recorded nor told before a whole number of ticks after the question
        came, so that how long it took to make can be read off nothing: not its arrival, not the ledger.
        A caller who hangs up does not stop the work: what was charged is recorded.
        """
        return _plain(await self._asked(caller, name, question, key))

    async def answer(self, caller: Caller, name: str, question: Asking, key: str | None = None) -> str:
        """Answer a question, as `ask`, in JSON."""
        return canonical_object(await self._asked(caller, name, question, key))

    async def _asked(self, caller: Caller, name: str, question: Asking, key: str | None) -> dict[str, Any]:
        task = asyncio.create_task(self._ask(caller, name, question, key))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _ask(self, caller: Caller, name: str, question: Asking, key: str | None) -> dict[str, Any]:
        start = self.grid.now()
        dataset = self._dataset(caller, "ask", name)
        part = dataset.parts.get(caller.analyst)
        if part is None:
            raise NotAllowed(f"you have no budget on {name}; ask the administrator for one")
        priced = await self._priced(caller, dataset, part, question)
        paid = await self._clerk.write(lambda: dataset.curator.reserving(priced, key=key, who=caller.analyst), _same)
        entry: Entry
        told: dict[str, Any]
        if isinstance(paid, Answer):
            release = paid.release
            entry, told = await self.run(self._told_before, caller, dataset, part, paid)
        else:
            made = await self._make(dataset, paid, start)
            if isinstance(made, Exception):
                await self.run(self._lose, dataset, paid, made)
                raise AnswerLost(_LOST) from None
            release = made.release
            entry, told = await self._record(caller, dataset, part, made)
        if isinstance(question, Question):  # whose release says it all
            return told
        said: dict[str, Any] = await self._on(self._tellers, question.told, release, entry, part)
        return told | said

    async def _priced(self, caller: Caller, dataset: Dataset, part: Budget, question: Asking) -> Priced:
        """Return a question with its price, built on a thread of its own unless the very same one was built before."""
        try:
            known = part.id, type(question), canonical(vars(question))
        except (
            TypeError,
            ValueError,
            RecursionError,
        ):  # no plain values: what is wrong with it is said where it is built
            known = None
        priced = None if known is None else self._orders.get(known)
        if priced is None:
            turn = f"{caller.token}:{secrets.token_hex(8)}"  # questions, unlike plans, do not take turns
            priced = await self._builders.run(turn, _quietly, self._build, dataset, part, question)
            if known is not None and len(self._orders) < _REMEMBERED:
                self._orders[known] = priced
        return priced

    async def _make(self, dataset: Dataset, paid: Paid, start: float) -> Draft | Exception:
        """Make a release, or return why it failed, at a tick; what it took is seen in nothing that happens before.

        The slot is held until then, so that a question that waits for it does not learn when the work ended.
        """
        async with self._slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.config.limits.threads)):
            made: Draft | Exception
            try:
                made = await self._on(self._readers, dataset.curator.make, paid)
            except Exception as error:
                made = error
            if not await self.grid.wait(start):
                self.metrics.count("late_answers")
            return made

    async def _on(self, threads: ThreadPoolExecutor, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(threads, _quietly, work, *arguments)

    def _build(self, dataset: Dataset, part: Budget, question: Asking) -> Priced:
        """Return a question that makes sense, with its price; raise what is wrong with another."""
        order = question.order(dataset.config, dataset.curator, part, self.config.limits.draws)
        return dataset.curator.price(
            order.mechanism,
            order.columns,
            where=order.where,
            missing=order.missing,
            draws=order.draws,
            purpose=order.purpose,
            accept_unproven=dataset.config.accept_unproven,
            part=part,
            about=order.about,
            then=order.then,
        )

    def _lose(self, dataset: Dataset, paid: Paid, error: Exception) -> None:
        log_failure(error)
        dataset.curator.give_up(paid.reservation, error)

    async def _record(
        self, caller: Caller, dataset: Dataset, part: Budget, made: Draft
    ) -> tuple[Entry, dict[str, Any]]:
        """Record an answer, and return its entry and all that is said of it."""

        def change() -> Change:
            return totalling(dataset.curator.recording(made), [part, dataset.budget])

        def tell(outcome: Any) -> tuple[Entry, dict[str, Any]]:
            entry, (of_part, of_whole) = outcome
            self.metrics.count("answers", dataset=dataset.config.name)
            remaining = {"yours": self._left(part, of_part), "whole": self._left(dataset.budget, of_whole)}
            return entry, self._said(dataset, entry, caller.analyst, made.release, remaining)

        try:
            return await self._clerk.write(change, tell)  # type: ignore[no-any-return]
        except Exception as error:
            await self.run(dataset.curator.give_up, made.reservation, error)
            if isinstance(error, LedgerCorrupt | LedgerUnavailable):
                raise
            log_failure(error)  # such as an entry that an administrator closed meanwhile
            raise AnswerLost(_LOST) from None

    def _told_before(
        self, caller: Caller, dataset: Dataset, part: Budget, answer: Answer
    ) -> tuple[Entry, dict[str, Any]]:
        """Return the entry of an answer that was recorded before, and all that is said of it."""
        entry = self.ledger.find_entry(part, answer.entry)
        if entry is None:
            raise LedgerCorrupt(f"entry {answer.entry} is not in the ledger")
        self.metrics.count("answers", dataset=dataset.config.name)
        remaining = self._remaining(caller, dataset)
        return entry, self._said(dataset, entry, caller.analyst, answer.release, remaining)

    def _said(
        self, dataset: Dataset, entry: Entry, analyst: str, release: Release, remaining: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return all that is said of an answer; what is JSON already stays so (`Written`)."""
        return {
            "entry": entry.id,
            "dataset": dataset.config.name,
            "at": entry.at,
            "release": Written(release.text),
            "summary": Written(summary_of(canonical(entry.profile_state))),
            "cost": {"yours": entry.cost, "whole": entry.whole_cost},
            "remaining": remaining,
            "receipt": self._signed(dataset, analyst, entry),
        }

    async def again(
        self, caller: Caller, name: str, number: int, rows: tuple[int, int] | None = None
    ) -> dict[str, Any]:
        """Return an answer by verb that was paid for before, the caller's own or, for an administrator, anyone's.

        `rows` asks for two of its rows beside each other, as ``contrast``.
        """
        return await self._on(self._tellers, self._again, caller, name, number, rows)  # type: ignore[no-any-return]

    def _again(self, caller: Caller, name: str, number: int, rows: tuple[int, int] | None) -> dict[str, Any]:
        dataset, owner, entry = self._committed(caller, name, number)
        if entry.release is None or "verb" not in entry.request:
            raise NotFound(f"answer {number} of {name} cannot be shown again; its entry is in the history")
        release = Release.from_json(entry.release)
        said = _plain(self._said(dataset, entry, owner, release, self._remaining(caller, dataset)))
        said |= told_of(release, entry, dataset.parts[owner])
        return said if rows is None else said | {"contrast": contrast_of(release, *rows)}

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run a method that blocks for a moment on a thread of its own."""
        return await asyncio.get_running_loop().run_in_executor(None, _quietly, work, *arguments)

    async def planning(self, caller: Caller, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run long work on public things, such as `plan`: one at a time of a token, given up when nobody waits."""
        return await self._planners.run(caller.token, _quietly, work, *arguments)

    def metrics_text(self) -> str:
        """Return the counters, and how much of each budget is spent, in Prometheus' text format."""
        gauges = []
        for name, dataset in self._datasets.items():
            for analyst, budget in [("", dataset.budget), *dataset.parts.items()]:
                share = float(self.ledger.spent(budget)) / budget.limit if budget.limit else 1.0
                gauges.append(("spent_share", "Share of a budget spent.", {"dataset": name, "analyst": analyst}, share))
        return self.metrics.text(gauges)

    def healthy(self) -> bool:
        """Say whether the ledger answers."""
        try:
            for dataset in self._datasets.values():
                self.ledger.spent(dataset.budget)
        except (LedgerUnavailable, LedgerCorrupt, InvalidValue):
            return False
        return True

    def stop(self) -> None:
        """Give up what was not paid for: plans, and questions still being built. Answers under way go on."""
        self._planners.stop()
        self._builders.stop()

    async def drain(self) -> None:
        """Wait for the answers under way, also those whose callers hung up."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

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


def _same(outcome: Any) -> Any:
    return outcome


def _plain(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json.loads(value.text) if isinstance(value, Written) else value for name, value in said.items()}


def _quietly(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run work at the edge of what floats can hold: infinities are answers here, and no warning is due."""
    with np.errstate(all="ignore"):
        return work(*arguments)


def _shown(entry: Entry, dataset: str) -> dict[str, Any]:
    """Return an entry without the moment it closed: with the one it opened, that would time the answer."""
    shown = entry.to_dict() | {"dataset": dataset, "analyst": entry.who}
    return {name: value for name, value in shown.items() if name not in ("closed_at", "who")}
