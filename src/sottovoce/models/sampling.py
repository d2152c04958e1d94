"""NUTS over what is unknown in a model: one compiled program, run on one release or on many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpyro.diagnostics import summary as _summary
from numpyro.infer import MCMC, NUTS, init_to_median

from sottovoce.models.program import Program
from sottovoce.privacy.numbers import Floats

__all__ = ["Sampler", "judged"]


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a sampler found: draws (chains, draws, ...) by site, and how many of them diverged."""

    draws: Mapping[str, Floats]
    diverged: int


class Sampler:
    """A program compiled once for NUTS, whose noisy counts are given anew each time.

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
        self.program = program
        kernel = NUTS(program, target_accept_prob=target_accept, init_strategy=init_to_median(num_samples=25))
        self._mcmc = MCMC(
            kernel,
            num_warmup=warmup,
            num_samples=draws,
            num_chains=chains,
            chain_method="vectorized",
            progress_bar=progress,
            jit_model_args=True,
        )

    def run(self, counts: Mapping[str, Any] | None = None, seed: int = 0) -> Drawn:
        """Return draws given noisy counts, those of the program's own releases unless given."""
        with jax.enable_x64(True):
            given = {name: np.asarray(c, dtype=np.float64) for name, c in (counts or self.program.counts).items()}
            self._mcmc.run(jax.random.PRNGKey(seed), given, extra_fields=("diverging",))
            samples = self._mcmc.get_samples(group_by_chain=True)
            diverged = int(np.asarray(self._mcmc.get_extra_fields()["diverging"]).sum())
            draws = {name: np.asarray(part) for name, part in samples.items() if "noisy counts" not in name}
        return Drawn(draws, diverged)


def judged(draws: Mapping[str, Floats], diverged: int) -> tuple[dict[str, Any], list[str]]:
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
