"""What a promise means, in words that a patient understands."""

from __future__ import annotations

import functools
import html
import math
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from sottovoce.ledger import Budget, Ledger, State
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import real
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.risk import advantage, promised_advantage, promised_success, success

__all__ = ["Explanation", "explain"]

_PEOPLE = 1000


@dataclass(frozen=True)
class Explanation:
    """A promise, profile, release or ledger in plain words, with the numbers behind them.

    Attributes
    ----------
    title, sentences
        What is explained, and the explanation.
    people, before, after
        Of so many people a guess is right for `before` without the release, and for at most `after` with it.
    right
        How often, of 100 tries, the release can be told from that of a data set with one record replaced.
    """

    title: str
    sentences: tuple[str, ...]
    people: int
    before: int
    after: int
    right: float

    def __str__(self) -> str:
        return "\n".join([self.title, "", *self.sentences])

    def _repr_html_(self) -> str:
        told = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences)
        return f"<div><strong>{html.escape(self.title)}</strong>{told}</div>"

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values."""
        numbers = {"people": self.people, "before": self.before, "after": self.after, "right": self.right}
        return {"title": self.title, "sentences": list(self.sentences)} | numbers

    def plot(self) -> Any:
        """Draw an icon array: of all people, those guessed right without and at most with the release."""
        from sottovoce.answers.style import COLOURS, figure  # noqa: PLC0415 - plots are an extra

        drawing, axis = figure(width=5.2, height=4.2)
        wide = 50
        for first, last, colour, label in (
            (0, self.before, COLOURS[0], f"guessed right anyway: {self.before}"),
            (self.before, self.after, COLOURS[1], f"at most so many more: {self.after - self.before}"),
            (self.after, self.people, "#d5d8dc", f"not guessed: {self.people - self.after}"),
        ):
            places = range(first, max(first, last))
            axis.scatter([p % wide for p in places], [-(p // wide) for p in places], s=14, color=colour, label=label)
        axis.set_axis_off()
        axis.set_title(self.title)
        axis.legend(loc="upper left", bbox_to_anchor=(0.0, 0.0), frameon=False)
        return drawing


def explain(what: Any, *, baseline: float = 0.01, language: str = "en", unit: str = "person's record") -> Explanation:
    """Say what a promise, a profile, a release, an answer, a budget or a ledger means.

    Parameters
    ----------
    what
        What to explain.
    baseline
        How often the guess comes true without the release; 1 in 100 unless given.
    language
        Of the texts in ``words.toml``.
    unit
        Who is protected: one record, unless the promise is about more.

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
    words, more = _texts(language), []
    named, claim = str(what), what
    if isinstance(what, Ledger):
        found = [budget for budget in what.budgets() if budget.whole is None]
        if len(found) != 1:
            raise InvalidValue(f"this ledger has {len(found)} budgets; explain one of ledger.budgets()")
        spent = float(what.spent(found[0])) / found[0].limit if found[0].limit else 1.0
        entries = sum(entry.state is not State.VOID for entry in what.entries(found[0].dataset))
        more = [
            words["whole"],
            words["spent"].format(spent=f"{100 * spent:.3g}", left=f"{100 * (1 - spent):.3g}", entries=entries),
        ]
        named, claim = f"a budget of {found[0].promise}", found[0].promise
    elif isinstance(what, Budget):
        named, claim, more = f"a budget of {what.promise}", what.promise, [words["whole"]]
    elif not isinstance(what, Promise | Profile):
        claim = getattr(what, "profile", None)
        named = "this release"
    if isinstance(claim, Promise):
        named = named if named != str(what) else f"the promise {what}"
        most, tossed = promised_success(claim, chance), (1 + promised_advantage(claim)) / 2
    elif isinstance(claim, Profile):
        named = named if named == "this release" else f"a {claim.word} profile"
        most, tossed = success(claim, chance), (1 + advantage(claim)) / 2
        more += [words["unproven"]] if claim.basis is Basis.CONVERGENCE else []
    else:
        raise InvalidValue(f"explain takes a promise, a profile, a release or a ledger. Got a {type(what).__name__}")
    people = _PEOPLE if chance >= 1 / _PEOPLE else 10 ** math.ceil(-math.log10(chance))
    before, after = round(chance * people), min(people, math.ceil(most * people - 1e-9))
    right = min(100.0, math.ceil(1000 * tossed - 1e-9) / 10)
    numbers = {
        "people": f"{people:,}",
        "before": f"{before:,}",
        "after": f"{max(after, before):,}",
        "right": f"{right:g}",
        "unit": unit,
    }
    parts = ("guess", "toss"), ("who", "against", "public", "not_promised")
    sentences = [words[part].format(**numbers) for part in parts[0]]
    sentences += more + [words[part].format(**numbers) for part in parts[1]]
    return Explanation(words["title"].format(what=named), tuple(sentences), people, before, max(after, before), right)


@functools.cache
def _texts(language: str) -> dict[str, str]:
    known = tomllib.loads(resources.files("sottovoce.answers").joinpath("words.toml").read_text(encoding="utf-8"))
    if language not in known:
        raise InvalidValue(f"there are no texts in {language!r}; there are {', '.join(known)}")
    texts: dict[str, str] = known[language]
    return texts
