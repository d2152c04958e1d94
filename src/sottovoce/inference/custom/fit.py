"""A fitted model: its posterior, how well it fits, and what it predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sottovoce.inference.cells.intervals import central, checked_level
from sottovoce.inference.custom.checking import PredictiveCheck, predictive_check
from sottovoce.inference.custom.evidence import Evidence, bridge
from sottovoce.inference.custom.likelihood import cell_log_likelihood
from sottovoce.inference.custom.observation import Observed
from sottovoce.inference.custom.program import Program
from sottovoce.mechanisms.arviz_groups import arviz_groups
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng


@dataclass(frozen=True, eq=False)
class ModelFit:
    """The posterior of a model of one's own, given noisy cells.

    Attributes
    ----------
    program
        The model with what it explains.
    draws
        Draws (chains, draws, ...) of every unknown and of what the model marks as deterministic.
    unknowns
        The sites of the prior.
    diagnostics
        R-hat (the largest) and effective draws (the fewest) of every unknown.
    diverged
        How many steps diverged.
    warnings
        What is wrong with the chains, in words; empty where nothing is.
    """

    program: Program = field(repr=False)
    draws: Mapping[str, Floats] = field(repr=False)
    unknowns: tuple[str, ...]
    diagnostics: Mapping[str, Mapping[str, float]] = field(repr=False)
    diverged: int
    warnings: tuple[str, ...]
    seed: int = 0

    @property
    def form(self) -> str:
        """The form of the likelihood; of several releases, each in turn."""
        return ", ".join(dict.fromkeys(self.program.forms.values()))

    def __getitem__(self, name: str) -> Floats:
        """Return all draws of an unknown, chains joined: (draws, ...)."""
        if name not in self.draws:
            raise InvalidValue(f"the model has no {name!r}; it has {', '.join(self.draws)}")
        part = self.draws[name]
        return part.reshape(-1, *part.shape[2:])

    def interval(self, name: str, level: float = 0.95) -> Floats:
        """Return (low, high) of the interval that holds `level`, as many draws below as above, on the last axis."""
        drawn = self[name]
        ends = central(drawn.reshape(len(drawn), -1), checked_level(level))
        return np.asarray(ends.reshape(*drawn.shape[1:], 2))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row a number that is unknown: its median, sd, 95 % interval, R-hat and effective draws."""
        rows = []
        for name in self.unknowns:
            drawn = self[name]
            flat, ends = drawn.reshape(len(drawn), -1), self.interval(name).reshape(-1, 2)
            for place in range(flat.shape[1]):
                index = np.unravel_index(place, drawn.shape[1:]) if drawn.ndim > 1 else ()
                label = name + (f"[{', '.join(map(str, index))}]" if index else "")
                given = {"unknown": label, "estimate": float(np.median(flat[:, place]))}
                given |= {
                    "sd": float(flat[:, place].std()),
                    "low": float(ends[place, 0]),
                    "high": float(ends[place, 1]),
                }
                rows.append(given | dict(self.diagnostics[name]))
        return rows

    @property
    def table(self) -> Any:
        """The rows as a tidy data frame."""
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(self.rows)

    def summary(self) -> str:
        """Return the posterior as text, with what was done and what is wrong with it."""
        width = max(len(row["unknown"]) for row in self.rows)
        lines = [f"{'':{width}}  estimate      sd     low    high  R-hat   ESS"]
        for row in self.rows:
            numbers = "  ".join(f"{row[name]:6.4g}" for name in ("sd", "low", "high"))
            ends = f"{row['r_hat']:5.3f}  {row['ess']:4.0f}"
            lines.append(f"{row['unknown']:{width}}  {row['estimate']:8.4g}  {numbers}  {ends}")
        for name, form in self.program.forms.items():
            seen = self.program.sites[name]
            lines.append(
                f"{'' if self.program.single else name + ': '}{seen.size} cells, n = {seen.n}, {seen.noise} noise of "
                f"scale {seen.scale:.4g}; {form} likelihood: {self.program.why[name]}"
            )
        return "\n".join([*lines, *(f"careful: {word}" for word in self.warnings)])

    def __repr__(self) -> str:
        return self.summary()

    def probabilities(self, name: str | None = None) -> Floats:
        """Return draws of the probabilities of the cells, (draws, cells); of several releases, of the one named."""
        return self[self.program._label(self._site(name), "probabilities")]

    def seen(self, name: str | None = None) -> Observed:
        """Return what was observed; of several releases, of the one named."""
        return self.program.sites[self._site(name)]

    def _site(self, name: str | None) -> str:
        if name is None and len(self.program.sites) == 1:
            return next(iter(self.program.sites))
        if name not in self.program.sites:
            raise InvalidValue(f"name one of the releases {', '.join(self.program.sites)}. Got {name!r}")
        return str(name)

    def whole(self, name: str | None = None) -> Floats:
        """Return draws of all probabilities, that of being in no cell last where there can be such records."""
        inside, site = self.probabilities(name), self._site(name)
        if self.program.sites[site].outside is None:
            return inside
        out = self[self.program._label(site, "outside")][:, None]
        return np.concatenate([inside * (1 - out), out], axis=1)

    def predictive(self, name: str | None = None, *, noise: bool = True, seed: int = 0) -> Floats:
        """Return counts of cells that another such data set would have, one row a draw; with noise, as released."""
        rng, seen = seeded_rng(seed), self.seen(name)
        shares = np.clip(self.whole(name), 0.0, 1.0)
        drawn = rng.multinomial(seen.n, shares / shares.sum(axis=1, keepdims=True))
        if noise:
            drawn = drawn + seen.law.add(np.zeros(drawn.size, dtype=np.int64), rng).reshape(drawn.shape)
        return np.asarray(drawn[:, : seen.size])

    def check(self, name: str | None = None, *, seed: int = 0) -> PredictiveCheck:
        """Return whether the noisy counts look like what the model predicts, noise and all."""
        return predictive_check(self.whole(name), self.seen(name), seeded_rng(seed))

    @cached_property
    def evidence(self) -> Evidence:
        """The marginal likelihood p(ñ | model), by bridge sampling, with its error."""
        return bridge(self.program, {n: self.draws[n] for n in self._free}, seed=self.seed)

    @property
    def _free(self) -> tuple[str, ...]:
        outs = [self.program._label(n, "outside") for n, s in self.program.sites.items() if s.outside is not None]
        return (*self.unknowns, *outs)

    def to_arviz(self) -> Any:
        """Return an ArviZ `InferenceData`: posterior, posterior predictive, log likelihood of each noisy cell."""
        chains, size = next(iter(self.draws.values())).shape[:2]
        logs, built, seen = [], {}, {}
        for name, part in self.program.sites.items():
            logs.append(cell_log_likelihood(self.whole(name), part))
            label = self.program._label(name, "noisy counts")
            built[label] = self.predictive(name).reshape(chains, size, -1)
            seen[label] = part.counts
        return arviz_groups(
            {
                "posterior": dict(self.draws),
                "posterior_predictive": built,
                "observed_data": seen,
                "log_likelihood": {"noisy counts": np.concatenate(logs, axis=1).reshape(chains, size, -1)},
            },
            attrs={"likelihood": self.form, "diverged": self.diverged},
        )

    def plot(self, name: str | None = None, *, level: float = 0.95) -> Any:
        """Return a figure of the noisy cells, the band of their noise, and the model's fit to them."""
        from sottovoce.inference.custom.plotting import plot_cells  # noqa: PLC0415 - an extra

        seen = self.seen(name)
        return plot_cells(seen, self.whole(name), seen.name if self.program.single else f"{name}: {seen.name}", level)
