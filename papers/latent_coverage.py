"""How often 95 % intervals of latent models hold the truth, when all that is known is noisy counts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import figure, write_csv
from sottovoce.inference.latent import ChainGrid, Field, HiddenMarkovModel, NoisyTables
from sottovoce.inference.latent.diagnostics import NotConverged
from sottovoce.inference.latent.latent_classes import LatentClasses
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["cover_classes", "cover_hidden_markov"]

EPSILONS = (0.1, 0.3, 1.0)
FIELDS = (Field("kind", ("a", "b", "c")), Field("hurt", (0, 1)))
CHAINS, STEPS, EVENTS = 6, 24, 60
_CHAINS, _BURN_IN, _THIN, _DRAWS = 32, 200, 8, 8


def cover_hidden_markov(epsilon: float, repeats: int, seed: int) -> dict[str, float]:
    """Return how often intervals hold a cell's emission and the share of steps that stay.

    Each time everything comes from the prior: probabilities, states, then as many records a cell as come from a
    negative binomial, each counted once in both tables; then Laplace noise. A fit that warns is counted like any other.
    """
    rng = seeded_rng(seed)
    grid = ChainGrid(Field("region", tuple(range(CHAINS))), (Field("month", tuple(range(STEPS))),))
    model = HiddenMarkovModel(grid, FIELDS, states=2)
    noise = IntegerNoise("laplace", 2 * len(FIELDS) / epsilon)
    emission, stay, warned = [], [], 0
    for _ in range(repeats):
        truth = model.prior.start(1, grid.shape, rng)
        z = truth.states[0]
        sizes = rng.negative_binomial(3, 3 / (3 + EVENTS), grid.shape)
        counts = [rng.multinomial(sizes, theta[0][z]) for theta in truth.emissions]
        noisy = tuple(_noised(c, noise, rng) for c in counts)
        tables = NoisyTables(model.tables, int(sizes.sum()), noisy, (noise,) * len(FIELDS))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", NotConverged)
            posterior = model.fit(tables, rng=rng)
        warned += bool(said)
        cell = tuple(rng.integers(0, s) for s in grid.shape)
        drawn = posterior.cell_emission("kind")[:, cell[0], cell[1]]
        emission.append(_inside(drawn, truth.emissions[0][0, z[cell]]))
        # Ties count half: shares of steps are multiples of one over their number.
        stay.append(_inside(posterior.stay_share, np.asarray((z[:, 1:] == z[:, :-1]).mean())))
    found = {"a cell's emission": emission, "the share that stays": stay}
    return {name: float(np.mean(hits)) for name, hits in found.items()} | {"warned": warned / repeats}


def cover_classes(n: int, epsilon: float, repeats: int, seed: int) -> dict[str, float]:
    """Return how often intervals hold class shares and probabilities of naive Bayes with two tables.

    Everything comes from the prior; each data set has 32 chains, all side by side.
    """
    rng, classes, categories = seeded_rng(seed), 3, (3, 4)
    noise = IntegerNoise("laplace", 2 * len(categories) / epsilon)
    pi = rng.dirichlet(np.full(classes, 1 / classes), repeats)
    thetas = [rng.dirichlet(np.full(k, 1 / k), repeats * classes) for k in categories]
    sizes = rng.multinomial(n, pi).ravel()
    noisy = tuple(_noised(rng.multinomial(sizes, theta), noise, rng) for theta in thetas)
    side_by_side = tuple(np.tile(table, (_CHAINS, 1)) for table in noisy)
    latent = LatentClasses(side_by_side, (noise,) * 2, classes, n, 1 / classes, tuple(1 / k for k in categories))
    counts, kept = latent.start(rng), []
    for sweep in range(_BURN_IN + _DRAWS * _THIN):
        counts = latent.sweep(counts, rng)
        if sweep >= _BURN_IN and sweep % _THIN == 0:
            kept.append(latent.parameters(counts, rng))
    shares = _inside(np.concatenate([p.reshape(_CHAINS, *pi.shape) for p, _ in kept]), pi)
    tables = _inside(np.concatenate([t[0].reshape(_CHAINS, *thetas[0].shape) for _, t in kept]), thetas[0])
    return {"class shares": float(shares.mean()), "probabilities": float(tables.mean())}


def _noised(counts: Any, noise: IntegerNoise, rng: np.random.Generator) -> Any:
    first, second = rng.geometric(-np.expm1(-1 / noise.scale), (2, *counts.shape))
    return counts + first - second


def _inside(draws: Floats, truth: Floats) -> Floats:
    """Return where an equal-tailed 95 % interval holds the truth; draws first."""
    below = (draws < truth).mean(axis=0) + (draws == truth).mean(axis=0) / 2
    return np.asarray((below > 0.025) & (below < 0.975), dtype=np.float64)


@experiment("latent-coverage", "Intervals of latent models that keep their level", source="ours")
def run(setting: Setting) -> Outcome:
    """Measure the coverage of hidden Markov models and naive Bayes, and draw it."""
    repeats, many = (4, 40) if setting.quick else (200, 400)
    rows: list[dict[str, Any]] = []
    for index, epsilon in enumerate(EPSILONS):
        found = cover_hidden_markov(epsilon, repeats, setting.seed + index)
        warned = found.pop("warned")
        rows += [{"model": "hidden Markov", "epsilon": epsilon, "what": what, "covered": value, "repeats": repeats,
                  "warned": warned} for what, value in found.items()]  # fmt: skip
        found = cover_classes(300, epsilon, many, setting.seed + index)
        rows += [{"model": "naive Bayes", "epsilon": epsilon, "what": what, "covered": value, "repeats": many,
                  "warned": 0.0} for what, value in found.items()]  # fmt: skip
        setting.advance((index + 1) / len(EPSILONS))
    table = write_csv(setting.output / "latent-coverage.csv", tuple(rows[0]), [tuple(row.values()) for row in rows])
    files = setting.save(_draw(rows), "latent-coverage")
    findings = []
    for model in ("hidden Markov", "naive Bayes"):
        mine = [row for row in rows if row["model"] == model]
        levels = [row["covered"] for row in mine]
        slack = 3 * (0.95 * 0.05 / mine[0]["repeats"]) ** 0.5
        findings.append(
            Finding(
                f"{model}: 95 % intervals cover 93-97 % at every ε",
                min(levels) >= 0.94 - slack and max(levels) <= 0.96 + slack,
                f"{min(levels):.3f} to {max(levels):.3f}, {mine[0]['repeats']} repeats each",
            )
        )
    return Outcome((*files, table), tuple(findings))


def _draw(rows: list[dict[str, Any]]) -> Any:
    drawing, axes = figure(2, width=3.2, height=3.0)
    for axis, model in zip(axes, ("hidden Markov", "naive Bayes"), strict=True):
        mine = [row for row in rows if row["model"] == model]
        axis.axhspan(0.93, 0.97, color="#dfe6e2", label="93 to 97 %")
        for what in dict.fromkeys(row["what"] for row in mine):
            axis.plot(EPSILONS, [row["covered"] for row in mine if row["what"] == what], "o-", label=what)
        axis.set(xscale="log", ylim=(0.5, 1.02), xlabel="ε", title=model)
        axis.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        axis.minorticks_off()
        axis.legend(loc="lower right", frameon=False)
    axes[0].set_ylabel("coverage of 95 % intervals")
    return drawing
