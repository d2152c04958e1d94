"""What counts of cliques say about a field's natural parameters: true counts exactly, noisy ones through their noise.

All of this is post-processing of a release, or of what stays with the curator: no privacy rests on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.latent.elliptical_slice_sampler import Guide, slice_step
from sottovoce.inference.latent.log_linear import LogLinear
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats

_MIDDLE, _SLOPE = 3.0, 2.0
"""The prior of the share of records that the lists hold: its log-odds are normal, so most of them, give or take."""
_QUIET = 1e-4
"""No noise is taken to have less variance: tables that agree by construction would leave nothing to divide by."""
_STEPS, _LEARN = 60, 40
"""Steps towards the mode at most, and steps of the chains that the guide is learnt from and thrown away."""
_WIDER = 2.0
_LAST = 1e300
"""More than any squared distance of what was seen, by its variance."""


@dataclass(frozen=True, eq=False)
class TrueCounts:
    """Counts S of n records without noise: the log-likelihood θ·S - n A(θ), as exact as the normalizer."""

    family: LogLinear
    counts: Floats
    n: float
    spread: float

    def log_target(self, x: Floats) -> Floats:
        """Return the log-density of the posterior at each row of coefficients, up to a constant."""
        potentials = x @ self.family.basis.T
        result = potentials @ self.counts - self.n * self.family.tree.log_normalizer(potentials)
        return np.asarray(result - 0.5 * ((x / self.spread) ** 2).sum(axis=1))

    def _slope(self, x: Floats) -> tuple[Floats, Floats]:
        basis = self.family.basis
        mean, covariance = self.family.tree.moments((basis @ x)[None])
        gradient = basis.T @ (self.counts - self.n * mean[0]) - x / self.spread**2
        return gradient, self.n * basis.T @ covariance[0] @ basis + np.eye(x.size) / self.spread**2

    def walk(self, chains: int, rng: np.random.Generator) -> Iterator[Floats]:
        """Yield the coefficients of all chains after each step."""
        guide = _about_the_mode(self.log_target, self._slope, np.zeros(self.family.basis.shape[1]))
        x = guide.mean + guide.noise(chains, rng)
        while True:
            x = _two_slices(lambda y, _: self.log_target(y), x, guide, rng)
            yield x


@dataclass(frozen=True, eq=False)
class NoisyCliqueCounts:
    r"""Counts with noise of known law, the true ones summed out.

    The counts of n records are nearly normal together: mean nμ(θ) and covariance nΣ(θ), both exact, so that a record
    counted in several tables is known to be one record (Bernstein and Sheldon 2018). Laplace noise is normal with an
    exponential variance, so every cell has a variance of its own that is drawn along; Gaussian noise has a known one:

    .. math:: \tilde n \mid \theta, v \sim N(n\mu(\theta), n\Sigma(\theta) + \mathrm{diag}(v))

    Where some record may lie in no cell (`outside`), the share of those inside is one more unknown, the last
    coordinate.
    """

    family: LogLinear
    noisy: tuple[Any, ...]
    noises: tuple[IntegerNoise, ...]
    n: int
    spread: float
    outside: bool

    @cached_property
    def _scales(self) -> Floats:
        """The prior's standard deviations; that of the share inside is one."""
        return np.append(np.full(self.family.basis.shape[1], self.spread), np.ones(int(self.outside)))

    @cached_property
    def _seen(self) -> Floats:
        return np.concatenate([np.ravel(t) for t in self.noisy]).astype(np.float64)

    @cached_property
    def _variances(self) -> Floats:
        each = [max(noise.variance, _QUIET, 1e-10 * self.n) for noise in self.noises]
        return np.repeat(each, [np.size(t) for t in self.noisy])

    @cached_property
    def _laplace(self) -> Floats:
        """The scale of Laplace noise in every cell; 0 where it is Gaussian, or so small that whole numbers show."""
        each = [noise.scale if noise.kind == "laplace" and noise.scale > 1 else 0.0 for noise in self.noises]
        return np.repeat(each, [np.size(t) for t in self.noisy])

    def _moments(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return one record's share inside, (chains, 1), and the mean and covariance of all counts."""
        p = self.family.basis.shape[1]
        mean, covariance = self.family.tree.moments(x[:, :p] @ self.family.basis.T)
        if not self.outside:
            return np.ones((len(x), 1)), self.n * mean, self.n * covariance
        inside = special.expit(_MIDDLE + _SLOPE * x[:, p:])
        covariance = covariance + ((1 - inside) * mean)[:, :, None] * mean[:, None, :]
        return inside, self.n * inside * mean, self.n * inside[..., None] * covariance

    def log_target(self, x: Floats, variances: Floats) -> Floats:
        """Return the log-density of each row given the noise's variance in every cell, up to a constant."""
        _, mean, covariance = self._moments(x)
        size = mean.shape[1]
        cells = np.arange(size)
        covariance[:, cells, cells] += variances
        # What was seen as one more row, under which the root holds it solved: one step rather than two.
        full = np.full((len(x), size + 1, size + 1), _LAST)
        full[:, :size, :size], full[:, size, :size] = covariance, self._seen - mean
        root = np.linalg.cholesky(full)
        away = root[:, size, :size]
        result = -0.5 * (away**2).sum(axis=1) - np.log(root[:, cells, cells]).sum(axis=1)
        return np.asarray(result - 0.5 * ((x / self._scales) ** 2).sum(axis=1))

    def _slope(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the information, the covariance held."""
        inside, mean, covariance = (part[0] for part in self._moments(x[None]))
        share = float(inside[0])
        by_effect = covariance - (1 - share) / (self.n * share) * np.outer(mean, mean)
        jacobian = by_effect @ self.family.basis
        if self.outside:
            jacobian = np.column_stack([jacobian, _SLOPE * (1 - share) * mean])
        moved = np.linalg.solve(covariance + np.diag(self._variances), jacobian)
        prior = self._scales**-2
        return moved.T @ (self._seen - mean) - prior * x, jacobian.T @ moved + np.diag(prior)

    def _noise_variances(self, x: Floats, rng: np.random.Generator, variances: Floats) -> Floats:
        """Draw the noise in every cell, (chains, cells), and the variance that it came with."""
        _, mean, covariance = self._moments(x)
        cells = np.arange(mean.shape[1])
        covariance[:, cells, cells] += 1e-9 * self.n + 1e-12
        root = np.linalg.cholesky(covariance)
        noise = np.sqrt(variances) * rng.standard_normal(mean.shape)
        imagined = mean + (root @ rng.standard_normal((*mean.shape, 1)))[..., 0] + noise
        covariance[:, cells, cells] += variances
        noise += variances * np.linalg.solve(covariance, (self._seen - imagined)[..., None])[..., 0]
        scale = np.where(self._laplace > 0, self._laplace, 1.0)
        drawn = 1 / rng.wald(1 / (scale * np.maximum(np.abs(noise), 1e-9)), scale**-2.0)
        return np.where(self._laplace > 0, drawn, variances)

    def walk(self, chains: int, rng: np.random.Generator) -> Iterator[Floats]:
        """Yield the coefficients of all chains after each step."""
        p = self.family.basis.shape[1]
        while not self.n:
            yield self.spread * rng.standard_normal((chains, p))
        variances = np.broadcast_to(self._variances, (chains, self._variances.size))

        def log_target(y: Floats, some: Any) -> Floats:
            return self.log_target(y, variances[some])

        usual = self._variances
        guide = _about_the_mode(lambda y: self.log_target(y, usual), self._slope, np.zeros(self._scales.size))
        x, begun = guide.mean + guide.noise(chains, rng), []
        for step in itertools.count():
            x = _two_slices(log_target, x, guide, rng)
            if np.any(self._laplace):
                variances = self._noise_variances(x, rng, variances)
            if step < _LEARN:
                begun.append(x)
                if step in (_LEARN // 3, _LEARN - 1):
                    guide = guide.learnt(np.concatenate(begun[len(begun) // 2 :]))
            else:
                yield x[:, :p]


def _two_slices(
    log_target: Callable[[Floats, Any], Floats], x: Floats, guide: Guide, rng: np.random.Generator
) -> Floats:
    """Return the chains after a slice along the guide and one along a wider law."""
    now = log_target(x, np.arange(len(x)))
    for law in (guide, guide.wider(_WIDER)):
        x, now = slice_step(log_target, x, now, law, rng)
    return x


def _about_the_mode(
    log_target: Callable[[Floats], Floats], slope: Callable[[Floats], tuple[Floats, Floats]], x: Floats
) -> Guide:
    """Return a normal law about the likeliest point, by scoring with steps cut until they climb."""
    now = float(log_target(x[None])[0])
    for _ in range(_STEPS):
        gradient, precision = slope(x)
        step = np.linalg.solve(precision, gradient)
        cuts = 0.5 ** np.arange(12)
        result = log_target(x + cuts[:, None] * step)
        best = int(np.argmax(result))
        if not result[best] > now + 1e-6:
            break
        x, now = x + cuts[best] * step, float(result[best])
    return Guide.of(x, slope(x)[1])
