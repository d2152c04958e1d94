"""What a promise means, in words that a patient understands."""

from __future__ import annotations

import functools
import html
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.privacy.composition import compose
from sottovoce.privacy.concentrated import RenyiProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import real
from sottovoce.privacy.profile import Basis, Profile, shared_relation
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.risk import advantage, how_sure, success
from sottovoce.privacy.shares import in_hundred
from sottovoce.service.answers.icon_arrays import Icons, icons
from sottovoce.service.ledger import Budget, Entry, State

if TYPE_CHECKING:
    from sottovoce.service.ledger import Ledger

_PEOPLE = 1000
_KINDS = 8
"""How many different releases are composed exactly; of more, the Rényi curves add, which is quick and a bound too."""
_ORDERS = 1 + np.geomspace(0.01, 1e4, 60)
_WEAK = 95.0
"""Of 100 tries, how many right guesses between two data sets are as good as all."""


@dataclass(frozen=True)
class Explanation:
    """A promise, profile, release or ledger in plain words, with the numbers behind them.

    Attributes
    ----------
    title, parts
        What is explained, and the explanation: its sentences, each under the name of its text.
    people, before, after
        Of so many people a guess is right for `before` without the release, and for at most `after` with it.
    right
        How often, of 100 tries, the release can be told from that of a neighbouring data set.
    sure
        Of 100 people pointed at as being in the data, where half are, how many are at most.
    so_far
        Of a ledger: `after` for what was released so far, had all of it been planned in advance.
    language
        Of the texts.
    """

    title: str
    parts: Mapping[str, str]
    people: int
    before: int
    after: int
    right: float
    sure: int
    so_far: int | None = None
    language: str = "en"

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences of the explanation, in order."""
        return tuple(self.parts.values())

    def __str__(self) -> str:
        return "\n".join([self.title, "", *self.sentences])

    @property
    def icons(self) -> Icons:
        """The people as dots: those guessed right without, and at most with the release."""
        return icons(self.people, self.before, self.after)

    def _repr_html_(self) -> str:
        shown = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences)
        drawn = self.icons.svg(self.sentences[0])
        return f"<div><strong>{html.escape(self.title)}</strong>{drawn}{shown}</div>"

    def to_dict(self) -> dict[str, object]:
        """Return the explanation as plain values."""
        numbers: dict[str, object] = {"people": self.people, "before": self.before, "after": self.after}
        numbers["right"] = self.right
        numbers |= {"sure": self.sure} | ({} if self.so_far is None else {"so_far": self.so_far})
        return {"title": self.title, "sentences": list(self.sentences)} | numbers

    def plot(self) -> Any:
        """Draw an icon array: of all people, those guessed right without and at most with the release."""
        from sottovoce.inference.figures import COLOURS, figure  # noqa: PLC0415 - plots are an extra

        drawing, axis = figure(width=5.2, height=4.2)
        shown, words = self.icons, texts(self.language)
        for dots, colour, label in zip(
            shown.places(), (COLOURS[0], COLOURS[1], "#d5d8dc"), shown.legend(words), strict=False
        ):
            axis.scatter([x for x, _ in dots], [-y for _, y in dots], s=14, color=colour, label=label)
        axis.set_axis_off()
        axis.set_title(self.title)
        title = words["each"].format(number=f"{shown.each:,}") if shown.each > 1 else None
        axis.legend(loc="upper left", bbox_to_anchor=(0.0, 0.0), frameon=False, title=title)
        return drawing


def explain(
    what: object, *, baseline: float = 0.01, language: str = "en", unit: str | None = None, dataset: str | None = None
) -> Explanation:
    """Say what a promise, a profile, a release, an answer, a budget, a curator or a ledger means.

    Parameters
    ----------
    what
        What to explain.
    baseline
        How often the guess comes true without the release; 1 in 100 unless given.
    language
        Of the texts in ``words.toml``.
    unit
        Who is protected, in words; by the relation of what is explained unless given.
    dataset
        Of a ledger with several budgets: whose.

    Examples
    --------
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> told = explain(ApproxDP(1.0, 1e-6))
    >>> told.people, told.before, told.after
    (1000, 10, 28)
    """
    chance = real("baseline", baseline, 0.0, below=1.0)
    if not 1e-9 <= chance <= 0.5:
        raise InvalidValue(f"baseline must lie between 1e-9 and 0.5. Got {chance:g}")
    words = texts(language)
    named, claim, spent = _claim(what, dataset, words)
    people = _PEOPLE if chance >= 1 / _PEOPLE else 10 ** math.ceil(-math.log10(chance) - 1e-9)
    before = round(chance * people)
    chance = before / people  # as it is said: what follows is true of the numbers in the sentence
    result = success(claim, chance)
    after = _up(result, people, before)
    right = min(100.0, math.ceil(500 * (1 + advantage(claim)) - 1e-9) / 10)
    sure = _up(how_sure(result, 0.5, chance), 100, 50)
    numbers = {"people": f"{people:,}", "before": f"{before:,}", "after": f"{after:,}", "right": f"{right:g}"}
    fragments = words["relation"][str(claim.relation)]
    if unit is None and claim.relation.unit == "record" and not isinstance(what, Promise | Profile):
        unit = fragments["row"]  # of a table whose facts name nobody that rows belong to
    numbers |= fragments | {"unit": unit or fragments["unit"], "sure": str(sure)}
    parts, so_far = ["guess", "toss", "sure"], None
    parts += ["weak"] if right >= _WEAK else []
    parts += ["unproven"] if isinstance(claim, Profile) and claim.basis is Basis.CONVERGENCE else []
    parts += ["whole" if isinstance(what, Budget) or spent is not None else "alone"]
    if spent is not None:
        share, entries = spent
        so_far = before
        if entries:
            so_far = min(after, _up(_so_far(together(entries), chance), people, before))
        answered = sum(entry.state is State.COMMITTED for entry in entries)
        paid = {"spent": in_hundred(share), "left": in_hundred(round(1 - share, 9)), "entries": str(answered)}
        silent = len(entries) - answered
        paid["unanswered"] = words["unanswered"].format(count=silent) if silent else ""
        numbers |= paid | {"so_far": f"{so_far:,}"}
        parts += ["spent", "so_far"] if entries else ["nothing"]
    parts += ["who", "against", "public", "not_promised"]
    shown = {part: words[part].format(**numbers) for part in parts}
    title = words["title"].format(what=named)
    return Explanation(title, shown, people, before, after, right, sure, so_far, language)


@functools.lru_cache  # a card, a page and an explanation say it of the same entries
def _so_far(spent: Profile, chance: float) -> float:
    return success(spent, chance)


def together(entries: Sequence[Entry]) -> Profile:
    """Return what entries that count do together, had they all been planned in advance.

    What counts for questions chosen as the answers come in is the budget: no sum taken at a moment that the answers
    chose is a claim.
    """
    kinds: dict[Profile, int] = {}
    for entry in entries:
        kinds[entry.profile] = kinds.get(entry.profile, 0) + 1
    if len(kinds) <= _KINDS:
        return compose(list(kinds), list(kinds.values()))
    total = np.sum([count * profile.renyi(_ORDERS) for profile, count in kinds.items()], axis=0)
    known = np.isfinite(total)
    if not known.any():
        return compose(list(kinds), list(kinds.values()))
    basis = Basis.weakest([Basis.BOUND, *(profile.basis for profile in kinds)])
    curve = tuple(_ORDERS[known].tolist()), tuple((total[known] * (1 + 1e-12)).tolist())
    return RenyiProfile(*curve, basis=basis, relation=shared_relation(kinds))


def is_weak(promise: Promise) -> bool:
    """Say whether a promise is next to no protection: a toss of a coin between two data sets is all but won.

    >>> from sottovoce.privacy.promises import PureDP
    >>> is_weak(PureDP(1.0)), is_weak(PureDP(20.0))
    (False, True)
    """
    with np.errstate(all="ignore"):
        try:
            return "weak" in explain(promise).parts
        except InvalidValue:  # a number so large that no curve is drawn for it
            return True


def _up(chance: float, people: int, least: int) -> int:
    return min(people, max(least, math.ceil(chance * people - 1e-9)))


def _claim(
    what: Any, dataset: str | None, words: dict[str, str]
) -> tuple[str, Promise | Profile, tuple[float, list[Entry]] | None]:
    """Return what it is called, what it claims, and of a ledger the share that is spent, by which entries."""
    if isinstance(what, Promise):
        return words["promise"].format(what=what), what, None
    if isinstance(what, Profile):
        return words["profile"].format(what=what.word), what, None
    if isinstance(what, Budget):
        return words["budget"].format(what=what.promise), what.promise, None
    from sottovoce.service.ledger import Ledger  # noqa: PLC0415 - opens a database

    result: object = what
    ledger = what if isinstance(what, Ledger) else getattr(what, "ledger", getattr(what, "_ledger", None))
    if isinstance(ledger, Ledger):
        budget = what.budget if isinstance(getattr(what, "budget", None), Budget) else only_budget(ledger, dataset)
        share = min(1.0, float(ledger.spent(budget)) / budget.limit) if budget.limit else 1.0
        entries = [entry for entry in ledger.entries(budget.dataset) if entry.counts]
        return words["budget"].format(what=budget.promise), budget.promise, (share, entries)
    result = getattr(what, "profile", getattr(what, "cost", None))
    if not isinstance(result, Profile):
        raise InvalidValue(f"explain takes a promise, a profile, a release or a ledger. Got a {type(what).__name__}")
    return words["release"], result, None


def only_budget(ledger: Ledger, dataset: str | None = None) -> Budget:
    """Return the budget of a data set, or the only one there is."""
    if dataset is not None:
        return ledger.budget(dataset)
    result = [budget for budget in ledger.budgets() if budget.whole is None]
    if len(result) != 1:
        names = ", ".join(repr(budget.dataset) for budget in result[:12]) or "none"
        raise InvalidValue(f"this ledger has {len(result)} budgets; say dataset=... ({names})")
    return result[0]


@functools.cache
def texts(language: str) -> dict[str, Any]:
    """Return the texts of a language."""
    known = tomllib.loads(
        resources.files("sottovoce.service.answers").joinpath("words.toml").read_text(encoding="utf-8")
    )
    if language not in known:
        raise InvalidValue(f"there are no texts in {language!r}; there are {', '.join(known)}")
    result: dict[str, object] = known[language]
    return result
