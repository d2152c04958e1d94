"""The low-bits attack on naive releases, and on ours.

Left: counts released with textbook Laplace noise in double precision; the share of releases that no random number
at all could have produced from the count plus one (Mironov 2012). Right: an audit that sees each output, to a half,
and the place of its last bit; three mechanisms as anyone would write them, and as they are here: discrete noise,
public cells, a public grid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.audit import AuditReport, Verdict, audit
from sottovoce.audit.low_bits import lowest_bit, naive_laplace, possible
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.mechanisms import DirectPosterior, NoisyStatistics
from sottovoce.mechanisms.conjugate import BetaBernoulli, NormalMean
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import PureDP
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["run", "shares"]

COUNTS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SCALES = (1.0, 10.0)
_N = 4


@experiment("floating-point", "The low-bits attack on naive releases, and on ours", source="Mironov 2012, and ours")
def run(setting: Setting) -> Outcome:
    """Draw how many naive releases prove their data set, and the ε that an audit of low bits finds."""
    size = 8000 if setting.quick else 200_000
    proofs = {scale: shares(scale, size, setting.seed) for scale in SCALES}
    attacks = _attacks()
    setting.advance(1 / (1 + len(attacks)))
    reports = []
    for k, (name, mechanism, pair, claim) in enumerate(attacks, start=1):
        # Discrete noise comes from its secure generator, as in a release; that is also the quick one.
        seed = None if "discrete" in name else setting.seed
        seen = _with_low_bits(mechanism)
        reports.append(audit(seen, pair, claim, draws=size, test="scan", seed=seed, early_stop=False, name=name))
        setting.advance((1 + k) / (1 + len(attacks)))
    drawing = _draw(proofs, reports)
    files = setting.save(drawing, "floating_point")
    rows: list[tuple[Any, ...]] = [
        ("proof", f"naive Laplace, scale {scale:g}, count {count}", share, "")
        for scale, found in proofs.items()
        for count, share in zip(COUNTS, found, strict=True)
    ]
    rows += [("audit", r.name, r.epsilon.lower, r.epsilon.claimed) for r in reports]
    table = write_csv(setting.output / "floating_point.csv", ("kind", "what", "value", "claimed"), rows)
    return Outcome((*files, table), _findings(proofs, reports))


def shares(scale: float, size: int, seed: int) -> list[float]:
    """Return, for each count, the share of naive releases that are impossible for the count plus one."""
    rng = seeded_rng(seed)
    return [1 - float(possible(naive_laplace(c, scale, size, rng), c + 1, scale).mean()) for c in COUNTS]


def _attacks() -> list[tuple[str, Callable[..., Any], tuple[Any, Any], PureDP | Profile]]:
    """Return mechanisms as functions of data, a pair of neighbours and what is claimed; naive first, then ours."""
    count = NoisyStatistics(BetaBernoulli(1, 1), _N, "laplace", 1.0)
    mean = NormalMean(1.0, 1.0, bounds=(-1.0, 1.0))
    sample = DirectPosterior(mean, _N)
    design = Design(Logistic(), dimension=1, data_norm=1.0)
    chain = DiffusedRegression(design, _N, 1.0, 0.5, n_steps=1)
    even, odd = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, -1.0, 1.0, 1.0])

    def naive(data: Any, rng: np.random.Generator, draws: int) -> Floats:
        return naive_laplace(float(np.sum(data)), 1.0, draws, rng)

    def discrete(data: Any, rng: np.random.Generator, draws: int) -> Floats:
        return count.outputs(count.see(data), rng, draws)[:, 0]

    def raw_sample(data: Any, rng: np.random.Generator, draws: int) -> Any:
        return mean.posterior(mean.statistics(data)).sample(draws, rng)

    def our_sample(data: Any, rng: np.random.Generator, draws: int) -> Any:
        return sample.release(data, rng, draws=draws).value

    def raw_chain(data: Any, rng: np.random.Generator, draws: int) -> Floats:
        # One step from zero, where every slope is -1/2, as in any sampler written in doubles.
        h = chain.chain.step
        mean = h * chain.data_weight * float(np.sum(data)) / 2
        return np.asarray(mean + np.sqrt(2 * h) * rng.standard_normal(draws))

    def our_chain(data: Any, rng: np.random.Generator, draws: int) -> Floats:
        start = np.zeros((draws, 1))
        return chain.draw(np.reshape(data, (_N, 1)), np.ones(_N), start, rng)[:, 0]

    zeros, one = [0, 0, 0, 0], [0, 0, 0, 1]
    return [
        ("count, textbook Laplace", naive, (zeros, one), PureDP(1.0)),
        ("count, discrete noise (ours)", discrete, (zeros, one), PureProfile(count.profile.pure())),
        ("posterior sample, all 53 bits", raw_sample, ([0.0] * _N, [0.0] * 3 + [1.0]), sample.profile),
        ("posterior sample, public cells (ours)", our_sample, ([0.0] * _N, [0.0] * 3 + [1.0]), sample.profile),
        ("one Langevin step, all 53 bits", raw_chain, (even, odd), chain.profile),
        ("one Langevin step on a grid (ours)", our_chain, (even, odd), chain.profile),
    ]


def _with_low_bits(mechanism: Callable[..., Any]) -> Callable[..., Floats]:
    """Return the mechanism as an attacker sees it who looks at the value, to a half, and at its last bit."""

    def seen(data: Any, rng: np.random.Generator, draws: int) -> Floats:
        values = np.asarray(mechanism(data, rng, draws))
        return np.asarray(256 * np.rint(2 * np.clip(values, -8, 8)) + np.clip(lowest_bit(values), -120, 120))

    return seen


def _draw(proofs: dict[float, list[float]], reports: list[AuditReport]) -> Any:
    drawing, (left, right) = figure(2, width=5.2)
    for scale, found in proofs.items():
        left.plot(np.array(COUNTS) + 1, found, "o-", markersize=4, label=f"textbook Laplace, ε = {1 / scale:g}")
    left.axhline(0.0, color=COLOURS[2], label="discrete noise (ours): none")
    left.set(
        xscale="log",
        ylim=(-0.03, 1.0),
        xlabel="true count + 1",
        ylabel="share of releases that prove it",
        title="Naive noise gives the count away",
    )
    left.legend()
    places = np.arange(len(reports))[::-1]
    colours = [COLOURS[1] if k % 2 == 0 else COLOURS[2] for k in range(len(reports))]
    right.barh(places, [r.epsilon.lower for r in reports], color=colours, height=0.62)
    right.plot([r.epsilon.claimed for r in reports], places, "k|", markersize=15, label="claimed ε, δ = 0.001")
    right.set_yticks(places, [r.name for r in reports])
    right.set(xlabel="ε that the attack proves", title="An audit of the last bit")
    right.legend(loc="lower right")
    right.grid(visible=False, axis="y")
    return drawing


def _findings(proofs: dict[float, list[float]], reports: list[AuditReport]) -> tuple[Finding, ...]:
    naive, ours = reports[::2], reports[1::2]
    first = proofs[SCALES[0]][0]
    return (
        Finding(
            "a textbook Laplace release of a zero proves that it was no one in most cases",
            first > 0.5,
            f"{first:.1%} of releases are impossible for a count of one",
        ),
        Finding(
            "every naive release breaks its claim by its low bits",
            all(r.verdict is Verdict.VIOLATED for r in naive),
            "; ".join(f"{r.name}: ε ≥ {r.epsilon.lower:.2f}, claimed {r.epsilon.claimed:.2f}" for r in naive),
        ),
        Finding(
            "the same attack finds nothing in ours",
            all(r.verdict is Verdict.HOLDS for r in ours),
            "; ".join(f"{r.name}: ε ≥ {r.epsilon.lower:.2f}, claimed {r.epsilon.claimed:.2f}" for r in ours),
        ),
    )
