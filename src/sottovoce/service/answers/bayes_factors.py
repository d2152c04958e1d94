r"""Bayes factors of what was released: for a difference against none, and for two columns that go together or not.

A difference is nothing, or Cauchy about nothing with a stated scale r. Where draws are those that the data alone leave,
the density of Savage and Dickey (Annals of Mathematical Statistics 42, 1971) becomes

.. math:: B_{10} = \frac{\text{mean of } \pi(\delta_i)}{f(0)}, \qquad \pi = \mathrm{Cauchy}(0, r),

f the density of the draws. The scale is √½ of how records spread unless stated, as in Rouder, Speckman, Sun, Morey and
Iverson (Psychonomic Bulletin & Review 16, 2009). A table of two columns is set beside one whose margins say all, with
the priors of Gunel and Dickey (Biometrika 61, 1974); both are averaged over the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from sottovoce.privacy.numbers import Floats

__all__ = ["MEDIUM", "AgainstNone", "of_difference", "of_independence"]

MEDIUM = math.sqrt(0.5)
"""The scale of differences beforehand, in standard deviations of the records: half of them are smaller."""
_LARGEST = 700.0
"""The logarithm of odds that are certain: of the largest doubles."""
_MOST = 1000.0
"""Odds beyond are told as such: they would rest on the last draws."""
_PLACES = 1000
"""At so many differences, each as likely as another beforehand, a density that is wider than they are is averaged."""
_EITHER = 0.01
"""With so many draws on either side of zero their density there is that of the draws, else of their normal law."""


@dataclass(frozen=True)
class AgainstNone:
    """How much likelier what was released is if there is something than if there is nothing.

    Attributes
    ----------
    log
        The natural logarithm of B₁₀.
    prior
        What was believed beforehand if there is something, in words.
    something, nothing
        What is set beside what, in words.

    Examples
    --------
    >>> AgainstNone(math.log(12.3), "half of all within ± 0.35").sentence()
    'For a difference against none: 12 to 1 (Bayes factor; beforehand half of all within ± 0.35).'
    >>> AgainstNone(-9.0, "half of all within ± 0.35").sentence()
    'For none against a difference: over 1,000 to 1 (Bayes factor; beforehand half of all within ± 0.35).'
    """

    log: float
    prior: str
    something: str = "a difference"
    nothing: str = "none"

    def sentence(self) -> str:
        """Return the factor as odds for the likelier of both, in words."""
        sides = (self.something, self.nothing) if self.log >= 0 else (self.nothing, self.something)
        odds = math.exp(min(abs(self.log), _LARGEST))
        shown = f"over {_MOST:,.0f}" if odds > _MOST else f"{odds:.2g}" if odds >= 10 else f"{odds:.1f}"
        shown = f"{round(odds, -1):,.0f}" if 100 <= odds <= _MOST else shown
        return f"For {sides[0]} against {sides[1]}: {shown} to 1 (Bayes factor; beforehand {self.prior})."


def of_difference(draws: Floats, scale: float) -> AgainstNone:
    """Return the Bayes factor for a difference against none, of draws that the data alone leave.

    >>> exact = np.random.default_rng(1).normal(0.0, 0.02, 40_000)
    >>> round(math.exp(-of_difference(exact, 0.35).log), -1)  # πr / σ√(2π) = 21.9
    20.0
    """
    middle, spread = float(np.mean(draws)), float(np.std(draws))
    prior = f"half of all differences within ± {scale:.2g}"
    if spread == 0:
        return AgainstNone(_LARGEST if middle else -_LARGEST, prior)
    near = min(np.mean(draws > 0), np.mean(draws < 0)) >= _EITHER
    density = stats.gaussian_kde(draws) if near else stats.norm(middle, spread).pdf
    if scale < spread:  # which draws would miss
        places = stats.cauchy.ppf((np.arange(_PLACES) + 0.5) / _PLACES, 0.0, scale)
        return AgainstNone(float(np.log(np.mean(density(places))) - np.log(np.ravel(density(0.0))[0])), prior)
    at_zero = float(np.log(np.ravel(density(0.0))[0])) if near else float(stats.norm.logpdf(0.0, middle, spread))
    return AgainstNone(float(np.log(np.mean(stats.cauchy.pdf(draws, 0.0, scale)))) - at_zero, prior)


def of_independence(counts: Floats) -> AgainstNone:
    """Return the Bayes factor for two columns that go together, of draws of their table, (draws, rows, columns).

    >>> table = np.array([[[30.0, 10.0], [10.0, 30.0]]])
    >>> of_independence(table).log > 5, of_independence(table[:, ::-1] * 0 + 20.0).log < 0
    (True, True)
    """
    counts = np.maximum(counts, 0.0)

    def marginal(parts: Floats) -> Floats:
        """Return log of the mean of the product of shares to the power of these counts, all shares alike beforehand."""
        cells, full = parts.shape[1], parts.sum(axis=1)
        return np.asarray(
            special.gammaln(parts + 1).sum(axis=1) - special.gammaln(full + cells) + special.gammaln(cells)
        )

    cells = counts.reshape(len(counts), -1)
    ways = special.gammaln(cells.sum(axis=1) + 1) - special.gammaln(cells + 1).sum(axis=1)
    full = ways + marginal(cells)
    margins = ways + marginal(counts.sum(axis=2)) + marginal(counts.sum(axis=1))
    log = float(special.logsumexp(full) - special.logsumexp(margins))
    return AgainstNone(log, "every table as likely as another", "columns that go together", "independent ones")
