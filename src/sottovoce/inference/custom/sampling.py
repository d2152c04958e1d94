"""NUTS over what is unknown in a model: one compiled program, run on one release or on many."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.diagnostics import summary as _summary
from numpyro.infer.hmc import hmc
from numpyro.infer.util import ParamInfo, constrain_fn, potential_energy

from sottovoce.inference.custom.program import Program
from sottovoce.mechanisms.jax_compilation import compiler_options
from sottovoce.mechanisms.progress import progress_bar
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng

_STEPS = 25
"""Steps between two looks at the clock."""
_DENSE = 40
"""With at most so many unknowns, their correlations are learned."""
_DESCENTS, _STRIDE, _NEAR = 10, 0.5, 1e-4
"""Chains first walk so many steps of Newton's rule towards a mode, none longer than this in any unknown; slopes so far
to either side give the bend."""
_ABOVE = 1e6
"""Of a start the height is known about, and said to be so much more, by which a million cells are not wrong: the
warmup's first step leaves it, and heights are the true ones from there on."""


@dataclass(frozen=True, eq=False)
class SampledChains:
    """What a sampler found: draws (chains, draws, ...) by site, and how many of them diverged."""

    draws: Mapping[str, Floats]
    diverged: int


class Sampler:
    """A program compiled once for NUTS (NumPyro's), whose noisy counts are given anew each time.

    Parameters
    ----------
    program
        What is sampled.
    chains, warmup, draws
        How many chains, and how long each.
    target_accept
        How often steps are to be accepted; nearer to one is slower and surer.
    progress
        Whether to show how far it is.
    """

    def __init__(
        self,
        program: Program,
        *,
        chains: int = 4,
        warmup: int = 500,
        draws: int = 500,
        target_accept: float = 0.9,
        progress: bool | None = False,
    ) -> None:
        self.program, self.chains, self.progress = program, chains, progress
        self.warmup, self.draws = (-(-steps // _STEPS) * _STEPS for steps in (warmup, draws))
        self._kept = draws
        self._accept = target_accept
        with jax.enable_x64(True):
            self._back, self._tries = program.back, program.starts
        self._size = self._tries.shape[1]
        self._kernels = hmc(potential_fn_gen=self._potential, algo="NUTS")
        self._about = dataclasses.replace(program, forms=dict.fromkeys(program.forms, "normal"))
        self._compiled: tuple[object, ...] | None = None

    def run(self, counts: Mapping[str, object] | None = None, seed: int = 0) -> SampledChains:
        """Return draws given noisy counts, those of the program's own releases unless given.

        Every chain is a thread of one compiled program, as many at a time as there are processors.
        """
        stop = threading.Event()
        workers = ThreadPoolExecutor(min(self.chains, os.cpu_count() or 1))
        with (
            jax.enable_x64(True),
            progress_bar("fitting", self.chains * (self.warmup + self.draws), self.progress) as bar,
            workers,
        ):
            given = jax.device_put(self.program.prepared(counts))
            go, begin, end, about = self._programs(given)
            places = self._places(about, given)

            def one(chain: int) -> Any:
                with jax.enable_x64(True):
                    key = self.chains * seed + chain
                    start, shape = self._descended(about, places[chain], given, key)
                    state, result = begin(np.int64(key), start, shape, *about(start, given)), []
                    for step in range(0, self.warmup + self.draws, _STEPS):
                        state, part = go(state, given)
                        result += [jax.device_get(part)] if step >= self.warmup else []
                        bar.advance(_STEPS)
                        if stop.is_set():
                            break
                    return [np.concatenate(part)[: self._kept] for part in zip(*result, strict=True)]

            try:
                result = list(workers.map(one, range(self.chains)))
            except BaseException:
                stop.set()  # chains end at their next look, not at their end
                raise
            flat, diverged = (np.stack(part) for part in zip(*result, strict=True))
            draws = jax.device_get(end(flat))
        return SampledChains({name: np.asarray(part) for name, part in draws.items()}, int(diverged.sum()))

    def _programs(self, given: object) -> tuple[Any, ...]:
        """Return, compiled once, what goes on with a chain, what starts it, what gives its draws their bounds, and the
        potential with its slope in the normal form: about the true one, and soon computed.
        """
        if self._compiled is None:
            start, shape = np.zeros(self._size), np.eye(self._size)
            begin = jax.jit(self._started).lower(np.int64(0), start, shape, 0.0, start)
            flat = np.zeros((self.chains, self._kept, self._size))
            often, seldom = compiler_options(), compiler_options(seldom=True)
            parts = (
                (jax.jit(self._stepped).lower(begin.out_info, given), often),
                (begin, seldom),
                (jax.jit(self._constrained).lower(flat), seldom),
                (jax.jit(jax.value_and_grad(self._height)).lower(start, given), seldom),
            )
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                self._compiled = tuple(pool.map(lambda part: part[0].compile(compiler_options=part[1]), parts))
        return self._compiled

    def _places(self, about: Any, given: Any) -> Floats:
        """Return where each chain starts: at the likeliest of some draws of the prior."""
        heights = np.array([about(start, given)[0] for start in self._tries])
        return self._tries[np.resize(np.argsort(heights, kind="stable")[: self.chains], self.chains)]

    def _potential(self, given: object) -> Any:
        return lambda z: potential_energy(self.program, (given,), {}, z)

    def _height(self, x: object, given: object) -> jax.Array:
        result = potential_energy(self._about, (given,), {}, self._back(x))
        return jnp.where(jnp.isfinite(result), result, jnp.inf)

    def _started(self, key: Any, start: Any, shape: Any, height: Any, slope: Any) -> Any:
        begin, _ = self._kernels
        slope = jnp.where(jnp.isfinite(slope), slope, 0.0)
        return begin(
            ParamInfo(self._back(start), jnp.minimum(height, 1e9) + _ABOVE, self._back(slope)),
            self.warmup,
            step_size=0.1,
            inverse_mass_matrix=shape if self._size <= _DENSE else None,
            dense_mass=self._size <= _DENSE,
            target_accept_prob=self._accept,
            rng_key=jax.random.PRNGKey(key),
            model_args=(None,),
        )

    def _descended(self, about: Any, x: Floats, given: Any, seed: int) -> tuple[Floats, Floats]:
        """Return a draw from the normal law about the mode that a start leads to, and that law's covariance.

        Chains keep their own starts, so that several modes are found where there are such; what is approximate here
        is forgotten in the warmup, which then is a third as long to compute.
        """
        values, vectors = np.ones(x.size), np.eye(x.size)
        if x.size > _DENSE:
            return x, vectors
        for _ in range(_DESCENTS):
            slope = np.nan_to_num(about(x, given)[1])
            ends = [[about(x + sign * _NEAR * e, given)[1] for e in np.eye(x.size)] for sign in (1, -1)]
            matrix = np.nan_to_num((np.array(ends[0]) - np.array(ends[1])) / (2 * _NEAR), posinf=1e8, neginf=-1e8)
            values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
            values = np.clip(np.abs(values), 0.25, 1e8)
            move = vectors @ (vectors.T @ slope / values)
            move = move * min(1.0, _STRIDE / max(np.max(np.abs(move)), 1e-30))
            tried = x - np.array([0.0, 1.0, 0.5, 0.2, 0.05])[:, None] * move
            x = tried[np.argmin([about(place, given)[0] for place in tried])]
        near = x + vectors @ (seeded_rng(seed).standard_normal(x.size) / np.sqrt(values))
        return near if np.isfinite(about(near, given)[0]) else x, (vectors / values) @ vectors.T

    def _stepped(self, state: Any, given: Any) -> Any:
        _, sample = self._kernels

        def step(state: Any, _: Any) -> Any:
            state = sample(state, model_args=(given,))
            return state, (ravel_pytree(state.z)[0], state.diverging)

        return jax.lax.scan(step, state, None, length=_STEPS)

    def _constrained(self, flat: Any) -> Any:
        shape = partial(constrain_fn, self.program, (), {}, return_deterministic=True)
        result = jax.lax.map(lambda x: shape(self._back(x)), flat.reshape(-1, flat.shape[-1]))
        return jax.tree.map(lambda part: part.reshape(*flat.shape[:2], *part.shape[1:]), result)


def judged(draws: Mapping[str, Floats], diverged: int) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Return R-hat and effective sizes by site, and in words what is wrong with the chains, if anything.

    A number that is the same in every draw, as the only entry of a composition is, agrees with itself; where none ever
    moves, no chain has.
    """
    chains, size = next(iter(draws.values())).shape[:2]
    with np.errstate(divide="ignore", invalid="ignore"):
        table = _summary(dict(draws), group_by_chain=True)
    still = {name: np.all(part == part[:1, :1], axis=(0, 1)) for name, part in draws.items()}
    if all(np.all(part) for part in still.values()):  # something is unknown, and should have moved
        still = dict.fromkeys(still, np.False_)
    worst = {name: float(_told(part["r_hat"], still[name], 1.0, np.inf).max()) for name, part in table.items()}
    least = {name: float(_told(part["n_eff"], still[name], chains * size, 0.0).min()) for name, part in table.items()}
    words = []
    name = max(worst, key=lambda k: worst[k])
    if worst[name] > 1.05:
        words.append(f"the chains have not converged: R-hat of {name!r} is {worst[name]:.2f}; use more warmup or draws")
    name = min(least, key=lambda k: least[k])
    if least[name] < 100:
        words.append(f"{name!r} has only {least[name]:.0f} effective draws: its interval is rough; use more draws")
    if diverged > max(2, 0.005 * chains * size):
        words.append(
            f"{diverged} of {chains * size} steps diverged: some of the posterior may be missed; raise target_accept, "
            "or write the model in other parameters"
        )
    return {n: {"r_hat": worst[n], "ess": least[n]} for n in worst}, words


def _told(found: Any, still: Any, best: float, worst: float) -> Floats:
    """Return a diagnostic: the best it may be of what cannot move, the worst of anything else that it is silent of."""
    return np.where(still, best, np.where(np.isnan(found), worst, found))
