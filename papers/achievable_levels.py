"""The (λ, ε) a posterior sample reaches when the data count r times (Algorithm 2) or the prior 1/m times (Algorithm 3).

Beta(6, 12) prior, which the paper writes η₀ = (6, 18), and n = 100 records; r, m ∈ {0.1, 0.2, …, 1}. Each curve is the
supremum over all neighbouring data sets, exactly.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile

__all__ = ["curves"]

N = 100
ALPHA, BETA = 6, 12
WEIGHTS = tuple(k / 10 for k in range(1, 11))
SHOWN = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
"""The six values of the paper's figure."""


def curves(orders: Floats) -> dict[str, dict[float, Floats]]:
    """Return ε at each order, for every weight of either algorithm; infinite past the asymptote."""
    return {symbol: {w: _profile(symbol, w).renyi(orders) for w in WEIGHTS} for symbol in ("r", "m")}


def _profile(symbol: str, weight: float) -> Profile:
    data_weight, prior_weight = (weight, 1.0) if symbol == "r" else (1.0, 1 / weight)
    return BetaBernoulli(ALPHA, BETA).profile(N, data_weight, prior_weight)


@experiment(
    "achievable-levels",
    "The privacy a posterior sample reaches",
    source="Geumlek et al. 2017, Figure 1; Geumlek 2020, Figures 5.1 and 5.2",
)
def run(setting: Setting) -> Outcome:
    """Draw ε against λ for every weight."""
    # Every λ* = 1 + 6/w is approached closely: ε grows only with the logarithm of the distance.
    asymptotes = 1 + ALPHA / np.array(WEIGHTS)
    near = np.concatenate([asymptotes - gap for gap in (0.0, 1e-9, 1e-6, 1e-3, 0.03)])
    orders = np.unique(np.concatenate([np.linspace(1.05, 62, 60 if setting.quick else 400), near, [2.0]]))
    found = curves(orders)
    setting.advance(0.8)
    rows = [
        (symbol, w, f"{order:.6g}", f"{epsilon:.8g}")
        for symbol, lines in found.items()
        for w, line in lines.items()
        for order, epsilon in zip(orders, line, strict=True)
        if np.isfinite(epsilon)
    ]
    table = write_csv(setting.output / "achievable-levels.csv", ("weight", "value", "order", "epsilon"), rows)
    files = setting.save(_draw(orders, found), "achievable-levels")
    setting.advance(1.0)
    return Outcome((*files, table), (_asymptotes(orders, found), _ordered(found), _direct(), _compared(orders, found)))


def _asymptotes(orders: Floats, found: dict[str, dict[float, Floats]]) -> Finding:
    last = [(w, orders[np.isfinite(line)].max()) for lines in found.values() for w, line in lines.items()]
    step = float(np.diff(orders).max())
    # 6/0.3 is not quite 20 in floating point, so that an order may stand a rounding past its asymptote.
    holds = all(-1e-9 < 1 + ALPHA / w - order <= step for w, order in last)
    shown = ", ".join(f"λ* = {1 + ALPHA / w:g} at {w:g}" for w in (1.0, 0.5, 0.1))
    return Finding("every curve has a vertical asymptote; it stands at λ* = 1 + 6/r or 1 + 6/m", holds, shown)


def _ordered(found: dict[str, dict[float, Floats]]) -> Finding:
    holds = all(
        bool(np.all(lines[low][np.isfinite(lines[high])] <= lines[high][np.isfinite(lines[high])]))
        and np.isfinite(lines[low]).sum() > np.isfinite(lines[high]).sum()
        for lines in found.values()
        for low, high in pairwise(WEIGHTS)
    )
    claim = "as r and m decrease, ε improves at each λ and becomes finite at larger λ, but an asymptote still exists"
    return Finding(claim, holds, f"checked for the {2 * (len(WEIGHTS) - 1)} pairs of adjacent weights at every order")


def _direct() -> Finding:
    at_two = _profile("r", 1.0).renyi(2.0)
    claim = "r = 1 and m = 1 are the same mechanism: a sample of the posterior itself"
    return Finding(claim, abs(at_two - 0.1912902268) < 1e-9, f"ε = {at_two:.6f} at λ = 2 for both")


def _compared(orders: Floats, found: dict[str, dict[float, Floats]]) -> Finding:
    below = [w for w in WEIGHTS[:-1] if found["m"][w][0] <= found["r"][w][0]]
    at = {symbol: lines[0.5][np.searchsorted(orders, 2.0)] for symbol, lines in found.items()}
    claim = "ours: for the same number, r buys more privacy than m at small orders, since ε falls as r² but as m"
    return Finding(claim, not below, f"at λ = 2: {at['r']:.4f} at r = 0.5, {at['m']:.4f} at m = 0.5")


def _draw(orders: Floats, found: dict[str, dict[float, Floats]]) -> Any:
    drawing, panels = figure(2)
    for axis, (symbol, lines) in zip(panels, found.items(), strict=True):
        for colour, w in zip(COLOURS, SHOWN, strict=False):
            axis.plot(orders, lines[w], color=colour, label=f"{w:g}")
            axis.axvline(1 + ALPHA / w, color=colour, lw=0.8, ls=":")
        number = 2 if symbol == "r" else 3
        axis.set(xlim=(1, 22), ylim=(0, 1.5), xlabel="order λ", ylabel="ε", title=f"Algorithm {number}, by {symbol}")
    drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", title="r or m", frameon=False)
    return drawing
