"""Any model, fitted to noisy cells: what a user calls."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import jax

from sottovoce.inference.custom.fit import ModelFit
from sottovoce.inference.custom.likelihood import Form
from sottovoce.inference.custom.observation import Observed, observed
from sottovoce.inference.custom.program import program_for
from sottovoce.inference.custom.sampling import Sampler, judged
from sottovoce.privacy.errors import InvalidValue


def fit_model(
    model: Any,
    answer: Any,
    *,
    prior: Mapping[str, object] | None = None,
    form: Form | None = None,
    chains: int = 4,
    warmup: int = 500,
    draws: int = 500,
    target_accept: float = 0.9,
    seed: int = 0,
    progress: bool | None = None,
) -> ModelFit:
    r"""Fit a model of your own to the noisy counts of cells: post-processing, free, as often as you like.

    The noise is part of the likelihood, p(ñ | θ) = Σ_N Multinomial(N; n, π(θ)) Π Pr[noise = ñ_k - N_k], with the true
    counts N summed out, exactly or as normal; NUTS draws θ.

    Parameters
    ----------
    model
        A NumPyro model that returns the probabilities of the cells (in the shape of the cells, or flat), or a
        distribution or distribution function of one column of numbers, which is cut over its cells. It may take one
        argument, the `Cells`. With `prior` it is a plain JAX function of the arguments that the prior names.
    answer
        What ``curator.counts(cells, spend=...)`` returned, its release, or the JSON either was saved as (a path or
        what was read from it). Or a mapping of names to several of them (sites, years): the model then returns a
        mapping of the same names, and takes a mapping of cells.
    prior
        A NumPyro distribution for each argument of `model`.
    form
        ``"exact"`` or ``"normal"``; unless given, the normal form is taken only where it stands.
    chains, warmup, draws, target_accept, seed
        As NUTS takes them.
    progress
        Whether to show a bar; by default where somebody sees it.

    Examples
    --------
    >>> import numpyro.distributions as dist
    >>> from sottovoce.inference.custom import Observed
    >>> seen = Observed([70, 134], n=200, noise="laplace", scale=4.0)
    >>> fit = fit_model(lambda p: [p, 1 - p], seen, prior={"p": dist.Beta(20, 20)}, chains=2, warmup=200, draws=500)
    >>> low, high = fit.interval("p")
    >>> bool(low < 0.35 < high), fit.form
    (True, 'exact')
    """
    single = not _several(answer)
    sites = {"cells": observed(answer)} if single else {str(name): observed(part) for name, part in answer.items()}
    if not sites:
        raise InvalidValue("there is no answer to fit a model to")
    for name, value, least in (("chains", chains, 1), ("warmup", warmup, 10), ("draws", draws, 10)):
        if not isinstance(value, int) or value < least:
            raise InvalidValue(f"{name} must be a whole number, {least} or more. Got {value!r}")
    if not 0.5 <= target_accept < 1:
        raise InvalidValue(f"target_accept lies from 0.5 to below 1. Got {target_accept!r}")
    with jax.enable_x64(True):
        program = program_for(model, sites, single=single, prior=prior, form=form)
        names = program.check()
    sampler = Sampler(
        program, chains=chains, warmup=warmup, draws=draws, target_accept=target_accept, progress=progress
    )
    result = sampler.run(seed=seed)
    diagnostics, words = judged({name: result.draws[name] for name in names}, result.diverged)
    for word in words:
        warnings.warn(word, stacklevel=2)
    return ModelFit(program, result.draws, tuple(names), diagnostics, result.diverged, tuple(words), seed)


def _several(answer: object) -> bool:
    """Say whether this is a mapping of names to answers rather than one answer read from JSON."""
    return (
        isinstance(answer, Mapping)
        and "release" not in answer
        and "value" not in answer
        and not isinstance(answer, Observed)
    )
