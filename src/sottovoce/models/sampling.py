"""NUTS over what is unknown in a model: one compiled program, run on one release or on many."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator, Mapping
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
from numpyro.infer.util import constrain_fn, potential_energy

from sottovoce.models.program import Program
from sottovoce.privacy.numbers import Floats

__all__ = ["Drawn", "Sampler", "judged"]

_STEPS = 25
"""Steps between two looks at the clock."""
_DENSE = 40
"""With at most so many unknowns, their correlations are learned."""
_DESCENTS, _STRIDE = 10, 0.5
"""Chains first walk so many steps of Newton's rule towards a mode, none longer than this in any unknown."""


@dataclass(frozen=True, eq=False)
class Drawn:
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
        progress: bool = False,
    ) -> None:
        self.program, self.chains, self.progress = program, chains, progress
        self.warmup, self.draws = (-(-steps // _STEPS) * _STEPS for steps in (warmup, draws))
        self._kept = draws
        self._accept = target_accept
        with jax.enable_x64(True):
            tries = program.starts()
            self._back = ravel_pytree(tries[0])[1]
            self._tries = jnp.stack([ravel_pytree(start)[0] for start in tries])
            self._size = self._tries.shape[1]
        self._kernels = hmc(potential_fn_gen=self._potential, algo="NUTS")
        self._about = dataclasses.replace(program, forms=dict.fromkeys(program.forms, "normal"))
        self._compiled: tuple[Any, ...] | None = None

    def run(self, counts: Mapping[str, Any] | None = None, seed: int = 0) -> Drawn:
        """Return draws given noisy counts, those of the program's own releases unless given.

        Every chain is a thread of one compiled program, as many at a time as there are processors.
        """
        stop = threading.Event()
        workers = ThreadPoolExecutor(min(self.chains, os.cpu_count() or 1))
        with jax.enable_x64(True), _bar(self.progress, self.chains * (self.warmup + self.draws)) as advance, workers:
            given = jax.tree.map(jnp.asarray, self.program.prepared(counts))
            keys = jax.random.split(jax.random.PRNGKey(seed), self.chains)
            begin, go, end = self._programs(keys[0], given)
            places = self._places(given)

            def one(chain: int) -> Any:
                with jax.enable_x64(True):
                    state, found = begin(keys[chain], places[chain], given), []
                    for step in range(0, self.warmup + self.draws, _STEPS):
                        state, part = go(state, given)
                        found += [jax.device_get(part)] if step >= self.warmup else []
                        advance(_STEPS)
                        if stop.is_set():
                            break
                    return [np.concatenate(part)[: self._kept] for part in zip(*found, strict=True)]

            try:
                found = list(workers.map(one, range(self.chains)))
            except BaseException:
                stop.set()  # chains end at their next look, not at their end
                raise
            flat, diverged = (np.stack(part) for part in zip(*found, strict=True))
            draws = jax.device_get(end(flat))
        return Drawn({name: np.asarray(part) for name, part in draws.items()}, int(diverged.sum()))

    def _programs(self, key: Any, given: Any) -> tuple[Any, ...]:
        """Return what starts a chain, what goes on with it and what gives its draws their bounds, compiled once."""
        if self._compiled is None:
            start = jnp.zeros(self._size)
            begin = jax.jit(self._started).lower(key, start, given)
            go = jax.jit(self._stepped).lower(begin.out_info, given)
            end = jax.jit(self._constrained).lower(jax.ShapeDtypeStruct((self.chains, self._kept, self._size), float))
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                self._compiled = tuple(pool.map(lambda part: part.compile(), (go, begin, end)))
        go, begin, end = self._compiled
        return begin, go, end

    def _places(self, given: Any) -> Any:
        """Return where each chain starts: at the likeliest of some draws of the prior."""
        heights = np.array([self._height(start, given) for start in self._tries])
        best = np.argsort(np.where(np.isfinite(heights), heights, np.inf), kind="stable")
        return self._tries[np.resize(best[: self.chains], self.chains)]

    def _potential(self, given: Any) -> Any:
        return lambda z: potential_energy(self.program, (given,), {}, z)

    def _height(self, x: Any, given: Any) -> Any:
        """Return the potential in the normal form: about the same, and soon computed."""
        found = potential_energy(self._about, (given,), {}, self._back(x))
        return jnp.where(jnp.isfinite(found), found, jnp.inf)

    def _started(self, key: Any, start: Any, given: Any) -> Any:
        begin, _ = self._kernels
        first, second = jax.random.split(key)
        shape, dense = None, self._size <= _DENSE
        if dense:
            start, shape = self._descended(start, given, second)
        return begin(
            self._back(start),
            self.warmup,
            step_size=0.1,
            inverse_mass_matrix=shape,
            dense_mass=dense,
            target_accept_prob=self._accept,
            rng_key=first,
            model_args=(given,),
        )

    def _descended(self, start: Any, given: Any, key: Any) -> tuple[Any, Any]:
        """Return a draw from the normal law about the mode that a start leads to, and that law's covariance.

        Chains keep their own starts, so that several modes are found where there are such; what is approximate here
        is forgotten in the warmup, which then is a third as long to compute.
        """
        flat = partial(self._height, given=given)

        def slopes(x: Any) -> tuple[Any, Any]:
            slope = jax.grad(flat)(x)
            return slope, slope

        def step(_: Any, state: Any) -> Any:
            x = state[0]
            matrix, slope = jax.jacfwd(slopes, has_aux=True)(x)
            values, vectors = jnp.linalg.eigh(jnp.where(jnp.isfinite(matrix), matrix, jnp.eye(x.size)))
            values = jnp.clip(jnp.abs(values), 0.25, 1e8)
            move = vectors @ (vectors.T @ jnp.where(jnp.isfinite(slope), slope, 0.0) / values)
            move = move * jnp.minimum(1.0, _STRIDE / jnp.maximum(jnp.max(jnp.abs(move)), 1e-30))
            tried = x - jnp.array([0.0, 1.0, 0.5, 0.2, 0.05])[:, None] * move
            heights = jax.lax.map(flat, tried)
            return tried[jnp.argmin(heights)], values, vectors

        first = (start, jnp.ones_like(start), jnp.eye(start.size, dtype=start.dtype))
        mode, values, vectors = jax.lax.fori_loop(0, _DESCENTS, step, first)
        near = mode + vectors @ (jax.random.normal(key, mode.shape, mode.dtype) / jnp.sqrt(values))
        return jnp.where(jnp.isfinite(flat(near)), near, mode), (vectors / values) @ vectors.T

    def _stepped(self, state: Any, given: Any) -> Any:
        _, sample = self._kernels

        def step(state: Any, _: Any) -> Any:
            state = sample(state, model_args=(given,))
            return state, (ravel_pytree(state.z)[0], state.diverging)

        return jax.lax.scan(step, state, None, length=_STEPS)

    def _constrained(self, flat: Any) -> Any:
        shape = partial(constrain_fn, self.program, (), {}, return_deterministic=True)
        found = jax.lax.map(lambda x: shape(self._back(x)), flat.reshape(-1, flat.shape[-1]))
        return jax.tree.map(lambda part: part.reshape(*flat.shape[:2], *part.shape[1:]), found)


@contextlib.contextmanager
def _bar(shown: bool, total: int) -> Iterator[Any]:
    if not shown:
        yield lambda steps: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("fitting", total=total)
        yield lambda steps: bar.advance(task, steps)


def judged(draws: Mapping[str, Floats], diverged: int) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Return R-hat and effective sizes by site, and in words what is wrong with the chains, if anything."""
    chains, size = next(iter(draws.values())).shape[:2]
    table = _summary(dict(draws), group_by_chain=True)
    worst = {name: float(np.nanmax(np.asarray(part["r_hat"]))) for name, part in table.items()}
    least = {name: float(np.nanmin(np.asarray(part["n_eff"]))) for name, part in table.items()}
    words = []
    name = max(worst, key=lambda k: worst[k])
    if chains > 1 and worst[name] > 1.05:
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
