"""Whether posterior sampling (OPS) doubles the runtime of a Gibbs sampler, as Geumlek 2020, §4.5, says of its own.

A sweep of a hidden Markov chain of the war logs' size (18 regions, 72 months, five features, two states), without
privacy, with emissions cut off at a floor and tempered, in doubles as the thesis ran it and drawn exactly as a release
is. Laplace noise is paid once, before the first sweep. Processor seconds, the least of some.
"""

from __future__ import annotations

import numpy as np

from benchmarks.gibbs import seconds
from benchmarks.timing import show
from sottovoce.inference.latent import ChainGrid, Field, HiddenMarkovModel, TemperedHiddenMarkov
from sottovoce.inference.latent.gibbs_sampler import gibbs_sweep
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.randomness import secure_rng, seeded_rng

REGIONS, MONTHS, STATES, PER_CELL, SWEEPS = 18, 72, 2, 300, 200
FEATURES = (12, 24, 4, 4, 4)
"""About the numbers of types and categories, and casualties in bins."""
TEMPERATURE = 100.0


def main(quick: bool = False) -> None:
    """Show one sweep of each kind beside the one without privacy."""
    months = 12 if quick else MONTHS
    grid = ChainGrid(Field("region", tuple(range(REGIONS))), (Field("month", tuple(range(months))),))
    fields = tuple(Field(f"feature {i}", tuple(range(size))) for i, size in enumerate(FEATURES))
    model, rng = HiddenMarkovModel(grid, fields, STATES), seeded_rng(1)
    states = rng.integers(0, STATES, grid.shape)
    counts = [rng.multinomial(PER_CELL, rng.dirichlet(np.ones(k), STATES)[states]).astype(float) for k in FEATURES]
    mech = TemperedHiddenMarkov(model, PER_CELL * states.size, TEMPERATURE, sweeps=SWEEPS)
    state, repeats = model.prior.start(1, grid.shape, rng), 2 if quick else 20
    exact = secure_rng()
    noise = IntegerNoise("laplace", 2.0)
    plain = seconds(lambda: gibbs_sweep(model.prior, state, counts, rng), repeats)
    times = {
        "without privacy": plain,
        "on counts noised once by Laplace noise": plain
        + seconds(lambda: [noise.add(t.astype(np.int64).ravel(), exact) for t in counts], repeats) / SWEEPS,
        "posterior sampling, in doubles as the thesis": seconds(lambda: mech.sweep(state, counts, rng), repeats),
        "posterior sampling, drawn exactly": seconds(lambda: mech.sweep(state, counts, exact), 1),
    }
    show(
        "OPS doubles the runtime?",
        ["one sweep of 200", "ms", "beside no privacy"],
        [[name, f"{1e3 * time:.2f}", f"{time / plain:.1f}"] for name, time in times.items()],
    )


if __name__ == "__main__":
    main()
