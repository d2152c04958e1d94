"""Eight worked models of one's own: what is cut into cells, what is unknown, and the probabilities of the cells.

Each is a NumPyro model that `sottovoce.inference.custom.fit_model` takes as it is; the guide "Your own model" shows
them, and `benchmarks/own_models.py` checks by simulation that their posteriors are right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from sottovoce.inference.custom.cell_masses import masses
from sottovoce.records.facts import Category, Cells, Count, Facts, Flag, Number

__all__ = ["WORKED", "Worked"]

WARDS = ("A", "B", "C", "D", "E", "F")
DOSES = (1, 3, 10, 30, 100, 300)
WEEKS = 26


@dataclass(frozen=True)
class Worked:
    """A model with the cells that it explains."""

    name: str
    cells: Cells
    model: Callable[..., Any]


def weibull(cells: Any) -> Any:
    """Return times to an event: Weibull, censored where the last cell begins."""
    shape = numpyro.sample("shape", dist.LogNormal(0.3, 0.3))
    scale = numpyro.sample("scale", dist.LogNormal(2.0, 0.4))
    return masses(lambda t: -jnp.expm1(-((t / scale) ** shape)), cells.edges("days"))


def mixture(cells: Any) -> Any:
    """Return two kinds of records, each normal; the second lies higher, so neither can take the other's name."""
    weight = numpyro.sample("weight", dist.Beta(3, 3))
    low = numpyro.sample("low", dist.Normal(35, 4))
    gap = numpyro.sample("gap", dist.LogNormal(3.3, 0.2))
    spread = numpyro.sample("spread", dist.LogNormal(2.0, 0.25).expand([2]).to_event(1))
    parts = masses(dist.Normal(jnp.stack([low, low + gap]), spread), cells.edges("score"))
    return jnp.stack([weight, 1 - weight]) @ parts


def ordinal() -> Any:
    """Return five grades of two arms: cumulative logits, shifted by the treatment."""
    share = numpyro.sample("share treated", dist.Beta(10, 10))
    effect = numpyro.sample("effect", dist.Normal(0, 1))
    first = numpyro.sample("first cut", dist.Normal(-1.5, 0.5))
    gaps = numpyro.sample("gaps", dist.LogNormal(0.0, 0.4).expand([3]).to_event(1))
    cuts = first + jnp.concatenate([jnp.zeros(1), jnp.cumsum(gaps)])
    heights = jax.nn.sigmoid(cuts - effect * jnp.array([[0.0], [1.0]]))
    heights = jnp.concatenate([jnp.zeros((2, 1)), heights, jnp.ones((2, 1))], axis=1)
    return jnp.stack([1 - share, share])[:, None] * jnp.diff(heights, axis=1)


def zero_inflated(cells: Any) -> Any:
    """Return counts with more zeros than Poisson's."""
    never = numpyro.sample("never", dist.Beta(2, 4))
    rate = numpyro.sample("rate", dist.LogNormal(1.0, 0.4))
    return masses(dist.ZeroInflatedPoisson(never, rate), cells.edges("visits"))


def wards() -> Any:
    """Return the share of records with a flag in every ward, around a common one."""
    size = numpyro.sample("ward size", dist.Dirichlet(jnp.full(len(WARDS), 5.0)))
    middle = numpyro.sample("middle", dist.Normal(-1.0, 0.7))
    spread = numpyro.sample("spread", dist.HalfNormal(0.7))
    off = numpyro.sample("off", dist.Normal(0, 1).expand([len(WARDS)]).to_event(1))
    rate = numpyro.deterministic("rate", jax.nn.sigmoid(middle + spread * off))
    return size[:, None] * jnp.stack([1 - rate, rate], axis=1)


def epidemic(cells: Any) -> Any:
    """Return the week of onset of every case of an epidemic, one a cell: susceptible, infectious, removed."""
    spread = 1 + numpyro.sample("reproduction - 1", dist.LogNormal(0.0, 0.3))
    removal = numpyro.sample("removal", dist.LogNormal(0.0, 0.2))
    start = numpyro.sample("log start", dist.Normal(-6.0, 0.7))
    weeks, steps = cells.size, 4

    def step(state: Any, _: Any) -> Any:
        left, sick = state
        new = left * -jnp.expm1(-spread * removal * sick / steps)
        sick = sick * jnp.exp(-removal / steps) + new
        return (left - new, sick), new

    _, new = jax.lax.scan(step, (1.0 - jnp.exp(start), jnp.exp(start)), None, length=weeks * steps)
    weekly = new.reshape(weeks, steps).sum(axis=1)
    return weekly / weekly.sum()


def blood_groups() -> Any:
    """Return the four blood groups from the frequencies of the alleles A, B and O, by Hardy and Weinberg's law."""
    a, b, o = numpyro.sample("alleles", dist.Dirichlet(jnp.array([3.0, 2.0, 6.0])))
    return jnp.stack([a * a + 2 * a * o, b * b + 2 * b * o, 2 * a * b, o * o])


def dose_response() -> Any:
    """Return who responds at each of six doses: a curve from a background to one, half way at ED50."""
    tried = numpyro.sample("tried", dist.Dirichlet(jnp.full(len(DOSES), 10.0)))
    background = numpyro.sample("background", dist.Beta(1, 9))
    middle = numpyro.sample("log ED50", dist.Normal(math.log(20), 0.8))
    slope = numpyro.sample("slope", dist.LogNormal(0.3, 0.3))
    rate = background + (1 - background) * jax.nn.sigmoid(slope * (jnp.log(jnp.array(DOSES, dtype=float)) - middle))
    return tried[:, None] * jnp.stack([1 - rate, rate], axis=1)


_FACTS = Facts(
    days=Number(0, 60, missing=0),
    score=Number(0, 100, missing=0),
    treated=Flag(missing=False),
    grade=Category(("none", "mild", "moderate", "severe", "worst"), missing="none"),
    visits=Count(60, missing=0),
    ward=Category(WARDS, missing="A"),
    returned=Flag(missing=False),
    week=Count(WEEKS - 1, missing=0),
    group=Category(("A", "B", "AB", "O"), missing="O"),
    dose=Category(DOSES, missing=1),
    responded=Flag(missing=False),
)

WORKED = {
    worked.name: worked
    for worked in (
        Worked("Weibull, censored", Cells(_FACTS, {"days": [*range(30), math.inf]}), weibull),
        Worked("two-component mixture", Cells(_FACTS, {"score": 25}), mixture),
        Worked("ordinal", Cells(_FACTS, {"treated": ..., "grade": ...}), ordinal),
        Worked("zero-inflated counts", Cells(_FACTS, {"visits": 11}), zero_inflated),
        Worked("hierarchical wards", Cells(_FACTS, {"ward": ..., "returned": ...}), wards),
        Worked("SIR epidemic", Cells(_FACTS, {"week": WEEKS}), epidemic),
        Worked("ABO alleles", Cells(_FACTS, {"group": ...}), blood_groups),
        Worked("dose-response", Cells(_FACTS, {"dose": ..., "responded": ...}), dose_response),
    )
}
"""The worked models by name."""
