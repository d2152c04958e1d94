"""Which mechanism: by name, or by n, d and the promise alone."""

from __future__ import annotations

from collections.abc import Callable

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise
from sottovoce.regression.design import Design
from sottovoce.regression.localised import LocalisedPosterior
from sottovoce.regression.losses import Squared
from sottovoce.regression.noisy_quadratic import NoisyQuadratic
from sottovoce.regression.posterior import ConcentratedGaussianPrior, DiffusePosterior, default_precision
from sottovoce.regression.refined import RefinedPosterior

__all__ = ["MECHANISMS", "GLMMechanism", "choose"]

GLMMechanism = DiffusePosterior | ConcentratedGaussianPrior | LocalisedPosterior | RefinedPosterior | NoisyQuadratic

_Maker = Callable[[Design, Promise, float, int, int | None], GLMMechanism]

_MAKERS: dict[str, _Maker] = {
    "refined": lambda design, target, scale, samples, steps: RefinedPosterior.calibrate(
        design, target, samples=samples, prior_scale=scale * design.data_norm, n_steps=steps
    ),
    "localised": lambda design, target, scale, samples, steps: LocalisedPosterior.calibrate(
        design, target, scales=(scale, scale / 2, scale / 4), samples=samples, n_steps=steps
    ),
    "diffuse": lambda design, target, scale, samples, steps: DiffusePosterior.calibrate(
        design, target, prior_scale=scale, samples=samples, n_steps=steps
    ),
    "concentrated": lambda design, target, scale, samples, steps: ConcentratedGaussianPrior.calibrate(
        design, target, prior_scale=scale, samples=samples, n_steps=steps
    ),
    "noisy-statistics": lambda design, target, scale, samples, steps: NoisyQuadratic.calibrate(
        design, target, prior_precision=default_precision(design, scale)
    ),
}

MECHANISMS = ("auto", *_MAKERS)
"""The names `choose` knows."""


def choose(
    name: str,
    design: Design,
    target: Promise,
    *,
    prior_scale: float | None = None,
    samples: int = 1,
    n_steps: int | None = None,
) -> GLMMechanism:
    """Return the mechanism called `name`, calibrated to `target`.

    ``auto`` is the refined posterior, which takes noisy statistics where 2n·μ ≥ d^{3/2} and looks widely where not:
    a choice made by n, d and the promise. For the squared loss, which has sufficient statistics, it is those.
    `prior_scale` is a public guess of ‖w‖; 30/data_norm where None.

    >>> from sottovoce.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import GaussianDP
    >>> type(choose("auto", Design(Logistic(), 1000, 3, 1.0), GaussianDP(0.5))).__name__
    'RefinedPosterior'
    """
    known = name
    if name == "auto":  # the squared loss has sufficient statistics: one noisy look at them is best
        known = "noisy-statistics" if isinstance(design.loss, Squared) else "refined"
    if known not in _MAKERS:
        raise InvalidValue(f"no mechanism is called {name!r}; use one of {', '.join(MECHANISMS)}")
    scale = 30.0 / design.data_norm if prior_scale is None else prior_scale
    return _MAKERS[known](design, target, scale, samples, n_steps)
