"""Groups of an answer about survival, and of competing risks how many had which kind of event by when."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.inference.cells.intervals import central
from sottovoce.inference.cells.survival_posterior import SurvivalPosterior
from sottovoce.inference.figures import COLOURS, figure, titled, words
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.comparison import Comparison
from sottovoce.service.answers.display import shown

__all__ = ["IncidenceAnswer", "of_group"]

_LISTED = 12
"""So many groups are named where none was met."""


@dataclass(frozen=True, eq=False, repr=False)
class IncidenceAnswer(Answer):
    """What `SurvivalAnswer` knows of its groups and, where there are several kinds of events, of each kind."""

    def __post_init__(self) -> None:
        if not isinstance(self.release.value, SurvivalPosterior):
            raise InvalidData("survival is told from noisy counts of times; this release holds something else")

    @property
    def posterior(self) -> SurvivalPosterior:
        """What is known of every curve."""
        value: SurvivalPosterior = self.release.value
        return value

    # The groups.

    @property
    def _groups(self) -> list[tuple[Any, ...]]:
        asked = self.posterior.question
        return [asked.groups.labels[place] for place in asked.kept]

    def _group(self, label: object) -> int:
        """Return the place of a group by its values, or by their words as a row has them."""
        parts = label if isinstance(label, tuple) else () if label is None else (label,)
        every = self.posterior.question.groups.labels
        names = [" / ".join(map(shown, item)) for item in every]
        wanted = " / ".join(map(shown, parts))
        if wanted not in names:
            raise InvalidValue(f"name one of the groups: {', '.join(filter(None, names[:_LISTED]))}. Got {wanted!r}")
        return names.index(wanted)

    # Which kind of event.

    @property
    def incidence_rows(self) -> list[dict[str, object]]:
        """Of each group, kind of event and time the share who had it by then, as plain values."""
        asked, (*names, time) = self.posterior.question, self.question.label_names
        rows = []
        for label, kind, cut in itertools.product(self._groups, asked.kinds, asked.cuts):
            drawn = self.incidence(kind, *label, at=cut)
            low, high = drawn.interval().tolist()
            row = dict(zip(names, label, strict=True)) | {asked.event: kind, time: cut}
            rows.append(row | {"estimate": drawn.estimate if drawn.told else None, "low": low, "high": high})
        return rows

    @property
    def incidences(self) -> Any:
        """A data frame of cumulative incidences: which share had each kind of event by each cut, of competing ones."""
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(self.incidence_rows).astype({"estimate": float})

    def incidence(self, kind: object, *group: object, at: float) -> Comparison:
        """Return the share of a group who had one kind of event by a cut (Aalen and Johansen); the others rule it out.

        Not one less the curve of this kind alone, which would follow those on whom another event has befallen.
        """
        asked, place = self.posterior.question, self._group(group)
        if kind not in asked.kinds:
            raise InvalidValue(f"{asked.event} has the kinds {', '.join(map(shown, asked.kinds))}. Got {shown(kind)}")
        if at not in asked.cuts:
            raise InvalidValue(
                f"incidences are told at the cuts, {', '.join(f'{c:g}' for c in asked.cuts)}. Got {at:g}"
            )
        cell = asked.cuts.index(at)
        draws = self.posterior.incidence[:, place, asked.kinds.index(kind), cell + 1]
        what = f"{shown(kind)} by {asked.columns_asked[0]} {at:g}{of_group(group)}"
        if not self.posterior.unknown(self.level)[place][cell]:
            return Comparison(what, draws, self.level)
        return Comparison(what, draws, self.level, lambda level: np.array([0.0, 1.0]), told=False)

    def plot_incidence(self, *group: object, ax: object = None) -> Any:
        """Return a figure, or draw into the axes `ax`: the incidences of all kinds in a group, with their bands."""
        asked, place = self.posterior.question, self._group(group)
        drawing, axes = figure(ax=ax)
        hidden = self.posterior.unknown(self.level)[place]
        last = int(np.argmax(hidden)) if hidden.any() else hidden.size
        for k, kind in enumerate(asked.kinds[: len(COLOURS)]):
            draws = self.posterior.incidence[:, place, k, : last + 1]
            ends, edges = central(draws, self.level), asked.edges[: last + 1]
            axes.fill_between(edges, ends[:, 0], ends[:, 1], alpha=0.22, color=COLOURS[k], linewidth=0, gid="band")
            axes.plot(edges, np.median(draws, axis=0), color=COLOURS[k], label=words(shown(kind)), gid="incidence")
        axes.set(xlim=(asked.edges[0], asked.edges[-1]), ylim=(0, 1.02), ylabel="share who had it")
        axes.set_xlabel(words(asked.columns_asked[0]))
        axes.legend(frameon=False)
        named = "".join(f", {shown(part)}" for part in group)
        titled(drawing, f"{asked.describe()}{named} ({percent(self.level)} intervals)", ax)
        return drawing


def of_group(group: tuple[object, ...]) -> str:
    """Return which group a number is of, in words."""
    return f" of {' / '.join(map(shown, group))}" if group else ""
