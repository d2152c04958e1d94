"""The client: a curator's verbs, asked of a server over HTTP."""

from __future__ import annotations

import functools
import html
import secrets
import ssl
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from sottovoce.faces.client.errors import NotAllowed, NotFound, ServerUnreachable
from sottovoce.faces.client.reach import LIMITED, covers, of_periods, reach
from sottovoce.faces.client.shared_tables import SharedTables
from sottovoce.faces.client.wire import Wire
from sottovoce.inference.cells.cell_mechanisms import mechanism_kind
from sottovoce.inference.cells.intervals import checked_level
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.numbers import shown as shown_value
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.relation import REPLACE_ONE
from sottovoce.privacy.shares import percent
from sottovoce.records.facts import Facts
from sottovoce.records.facts.assumed_distribution import imagined_of
from sottovoce.records.facts.periods import Periods, parse_periods
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.budget_account import Spend
from sottovoce.service.answers.catalogue import CATALOGUE, Verb, spend_of
from sottovoce.service.answers.explanations import Explanation, explain
from sottovoce.service.answers.planned_verbs import regression_room
from sottovoce.service.answers.priced_option import PricedOption
from sottovoce.service.answers.verb_options import PlanOptions, ReleaseOptions
from sottovoce.service.ledger import Budget

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.faces.client.response_bodies import BudgetBody, DatasetBody, LeftBody, ReceiptBody, RemainingBody
    from sottovoce.inference.regression.formula import Formula
    from sottovoce.inference.regression.regression_plan import RegressionPlan


class Client(SharedTables):
    """A data set behind a server, asked as a `Curator` is: the data stay there, whole posteriors come back.

    A question is checked here first, from the facts, which costs nothing. It is sent under a key of its own: where the
    network fails it is sent again, and charged once.

    Parameters
    ----------
    url
        Where the server is, such as ``https://register.example``. Without TLS only on this very machine.
    token
        What `sottovoce tokens create` showed.
    dataset
        Which data set; may be left out where the token reaches one.
    timeout, tries
        Seconds to wait for a reply, and how often to try a server that does not answer.
    context
        For a certificate of one's own: what `ssl.create_default_context(cafile=...)` returns.

    Attributes
    ----------
    facts
        What is public of the columns.
    n
        How many records there are.
    """

    def __init__(
        self,
        url: str,
        token: str,
        dataset: str | None = None,
        *,
        timeout: float = 60.0,
        tries: int = 5,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._wire = Wire(url, token, timeout=timeout, tries=tries, context=context)
        self._about = self._chosen(dataset)
        try:
            self.dataset, n = str(self._about["name"]), self._about["n"]
            self.n = None if n is None else int(n)  # a secret, or public
            self.facts: Facts = Facts.from_dict({item["name"]: item["facts"] for item in self._about["columns"]})
        except (KeyError, TypeError, ValueError) as error:
            raise ServerUnreachable(f"what answers at {url} is no server of ours: {error}") from None

    def _chosen(self, dataset: str | None) -> DatasetBody:
        if dataset is not None:
            result: DatasetBody = self._wire.get("datasets", dataset)
            return result
        known: list[DatasetBody] = self._wire.get("datasets")
        names = [item["name"] for item in known]
        if len(known) != 1:
            raise InvalidValue(f"say dataset=..., one of {', '.join(names)}" if names else "the token reaches no data")
        return known[0]

    def _once(
        self, question: Question | Formula, spend: Spend, part: Budget | None, level: float, options: ReleaseOptions
    ) -> Any:
        _own(part, [name for name in options if name not in ("idempotency_key", "purpose", "again")])
        verb: Verb = CATALOGUE[getattr(question, "verb", "regress")]
        shown = self.asked(verb.word, **verb.arguments_of(question), spend=spend, level=level, **options)
        return self._told_with_earlier(shown)

    def _told_with_earlier(self, answer: Any) -> Any:
        """Return an answer told with what an earlier one to the same question knows, as a curator does; free."""
        if type(answer) is not Answer or answer.earlier is None or answer.entry is None:
            return answer
        try:
            both = self.together([answer.earlier, answer.entry], level=answer.level)
        except InvalidValue:  # of two kinds of noise, say
            return answer
        return replace(answer, release=both.release)

    def _foreseen(self, formula: Formula, spend: Spend, options: PlanOptions) -> RegressionPlan:
        _own(options["part"])
        said = imagined_of(options["imagined"], self.facts)
        body: dict[str, Any] = CATALOGUE["regress"].arguments_of(formula) | {"records": options["records"]}
        body |= {"spend": _paid(spend), "level": checked_level(options["level"])}
        body |= {"imagine": said.texts, "share": said.share, "spread": said.spread, "kept": said.kept}
        given = {name: value for name, value in body.items() if value is not None}
        key = secrets.token_hex(16)
        shown = self._wire.post("datasets", self.dataset, "regressions", "plan", body=given, key=key)
        if not shown["covered"]:
            raise _uncovered(shown["share"], shown["left"], shown["whole_limits"])
        built: RegressionPlan = regression_room().RegressionPlan.from_dict(shown)
        return built

    def _offered(self, question: Question | str, offer: PricedOption, part: Budget | None = None) -> PricedOption:
        """Return an offer that can be paid, by the token's budget and by the one that everyone shares."""
        _own(part)
        asked = self._question_of(question)
        yours, budgets = self._budgets()
        purse = PrivacyFilter.from_dict(yours["filter"])
        n = None if offer.promise.relation.hides_n else self.n
        mechanism = mechanism_kind(asked, n).calibrate(asked, n, offer.promise, price=purse.cost)
        periods = self._reached(asked.where, mechanism)
        budgets = of_periods(budgets, periods)
        if not covers(budgets, mechanism.profile):
            raise _uncovered(offer.share, *reach(budgets))
        return replace(offer, periods=periods or ())

    def asked(
        self,
        verb: str,
        *,
        spend: Spend = 0.05,
        level: float | str = 0.95,
        idempotency_key: str | None = None,
        purpose: str | None = None,
        again: bool = False,
        **arguments: Any,
    ) -> Any:
        """Ask by the word of a verb that is registered here and there: ``client.asked("mean", column="sbp")``."""
        known: Verb = CATALOGUE[verb]
        body = known.checked(arguments) | {"verb": verb, "level": checked_level(level), "table": False}
        if not isinstance(again, bool):
            raise InvalidValue(f"again= is True or False. Got {shown_value(again)}")
        body |= {"spend": _paid(spend)} | ({} if purpose is None else {"purpose": purpose})
        body |= {"again": True} if again else {}
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        try:
            shown = self._wire.post("datasets", self.dataset, "answers", body=body, key=key)
        except ServerUnreachable as error:
            once = f"ask it again with idempotency_key={key!r}, and you pay once"
            raise ServerUnreachable(f"{error}. The question may have been charged: {once}") from None
        return known.read(shown)

    def again(self, entry: int, *, level: float | str = 0.95) -> Any:
        """Return an answer that was paid for before, by the number of its entry, with intervals of a level; free."""
        wanted = checked_level(level)
        state = self._wire.get("datasets", self.dataset, "answers", str(entry))
        verb: Verb = CATALOGUE[state["verb"]]
        return verb.read(state | {"level": wanted})

    def together(self, entries: Sequence[int], *, level: float | str = 0.95) -> Any:
        """Return what several answers to one question tell together, narrower than each, by their entries; free."""
        if not isinstance(entries, list | tuple) or not entries:
            raise InvalidValue(f"name the entries, such as [3, 7]. Got {shown_value(entries)}")
        wanted, (first, *others) = checked_level(level), map(str, entries)
        asked = [("with", number) for number in others]
        state = self._wire.get("datasets", self.dataset, "answers", first, parameters=asked)
        verb: Verb = CATALOGUE[state["verb"]]
        return replace(verb.read(state | {"level": wanted}), entry=None)

    def left(self) -> str:
        """Return what the token can still spend of its budget, in words: ``50 % left: about 10 more like the last``."""
        words: LeftBody = self._wire.get("datasets", self.dataset, "left")
        return str(words["yours"] or words["whole"])

    def remaining(self) -> Promise:
        """Return what the token can still spend: what is left of its budget, or less where the whole has less."""
        yours, budgets = self._budgets()
        share, limited = reach(budgets)
        if not limited:
            return Promise.from_dict(yours["remaining"])
        purse = PrivacyFilter.from_dict(yours["filter"])
        return purse.remaining_after(Fraction(purse.limit) * (1 - Fraction(share)))

    def share(self, fraction: float) -> Promise:
        """Return the promise that costs a share of the token's budget, in the notion it is counted in."""
        return self._purse(None)[0].share(fraction)

    def _share_left(self, part: Budget | None, where: str | None = None) -> float:
        _own(part)
        return reach(of_periods(self._budgets()[1], self._reached(where)))[0]

    @functools.cached_property
    def periods(self) -> Periods | None:
        """The periods of the data, each with a budget of its own; None where they have none."""
        by = self._about.get("period")
        return None if by is None else parse_periods(by, self.facts, self._about["periods"] or ())

    def left_by_period(self) -> dict[str, float]:
        """Return the share of the token's budget that each period has left; nothing where there are none."""
        return {name: 1 - spent for name, spent in (self._budgets()[0].get("periods") or {}).items()}

    def _reached(self, where: str | None, mechanism: Any = None) -> tuple[str, ...] | None:
        """Return the periods that a question is charged to; None where it may be all, or there are none."""
        if self.periods is None:
            return None
        persons = self.facts.persons
        return self.periods.read_by(mechanism, where, None if persons is None or persons.home else self.facts.person)

    def _purse(self, part: Budget | None) -> tuple[PrivacyFilter, int | None]:
        _own(part)
        return PrivacyFilter.from_dict(self._budgets()[0]["filter"]), self.n

    def explain(self) -> Explanation:
        """Say what the token's budget means, in words that a patient understands."""
        return explain(Promise.from_dict(self._budgets()[0]["budget"]))

    def _budgets(self) -> tuple[BudgetBody, RemainingBody]:
        """Return what is spent of the token's own budget; and with it of the whole."""
        result: RemainingBody = self._wire.get("datasets", self.dataset, "remaining")
        if (yours := result["yours"]) is None:
            raise NotAllowed(f"the token has no budget on {self.dataset}; ask the administrator for one")
        return yours, result

    def history(self) -> list[dict[str, Any]]:
        """Return what was asked with this token's budget, newest first."""
        entries: list[dict[str, Any]] = self._wire.get("datasets", self.dataset, "history")["entries"]
        return entries

    def receipt(self, entry: int) -> ReceiptBody:
        """Return the signed receipt of an answer; `sottovoce receipt verify` checks it."""
        if isinstance(entry, bool) or not isinstance(entry, int) or entry < 1:
            raise NotFound(f"an entry is numbered from 1. Got {entry!r}")
        result: ReceiptBody = self._wire.get("datasets", self.dataset, "answers", str(entry), "receipt")
        return result

    def dummy(self, n: int = 100, seed: int = 0, *, missing: float = 0.0) -> Any:
        """Return a data frame of made-up records of the same shape, to try code on: from the facts alone, free."""
        return self.facts.dummy(n, seed, missing=missing)

    def close(self) -> None:
        """Forget the token: nothing more is asked with this client."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.dataset!r} at {self._wire.url}, n={'private' if self.n is None else f'{self.n:,}'})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{column.word}</td></tr>" for name, column in self.facts.items()
        )
        size = "a secret number of" if self.n is None else f"{self.n:,}"
        head = f"<strong>{html.escape(self.dataset)}</strong> at {html.escape(self._wire.url)}, {size} records"
        return f"<div><p>{head}</p><table><thead><tr><th>column</th><th>kind</th></tr></thead>{rows}</table></div>"


def _own(part: Budget | None, options: Sequence[str] = ()) -> None:
    """Refuse what only a curator takes."""
    if part is not None or options:
        extra = "part" if part is not None else options[0]
        raise InvalidValue(f"{extra}= is for a curator; a client pays from the part of its token")


def _uncovered(share: float, left: float, limited: bool) -> BudgetExceeded:
    why = f", {LIMITED}" if limited else ""
    return BudgetExceeded(
        f"it takes {percent(share)} of your budget, and {percent(left)} is left{why}; nothing was spent"
    )


def _paid(spend: Spend) -> str | float:
    """Return what an answer may cost, as it goes over the wire."""
    paid = spend_of(spend)
    return _spelt(paid) if isinstance(paid, Promise) else paid


def _spelt(promise: Promise) -> str:
    """Return a promise as text that reads back as the very same; its `str` has six digits."""
    text = f"{promise.word}:{','.join(repr(getattr(promise, name)) for name in promise.numbers())}"
    return text if promise.relation == REPLACE_ONE else f"{text} {promise.relation}"
