"""Gibbs sweeps of the hidden Markov model beside hmmlearn's and NumPyro's on the same data, and the way to its counts.

Run ``python benchmarks/gibbs.py`` or with ``--quick``. All times are processor seconds of this process over all its
threads, which stay fair on a machine that does other work too.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks.timing import show
from sottovoce.inference.latent import (
    ChainGrid,
    Field,
    HiddenMarkovModel,
    HiddenMarkovPosterior,
    LatentCounts,
    TemperedHiddenMarkov,
)
from sottovoce.inference.latent.forward_backward import sample_paths
from sottovoce.inference.latent.gibbs_sampler import gibbs_sweep, noisy_sweep
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.records.tables import open_table

SIZES = (3, 4, 5, 4, 3, 4)
STEPS, STATES, PER_CELL = 72, 4, 70


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the least processor seconds of one call, after one to warm up.

    Calls are timed some at a time: what other threads have used is known to the tick of a clock only.
    """
    work()
    start = time.process_time()
    work()
    some = max(int(0.05 / max(time.process_time() - start, 1e-4)), 1)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(some):
            work()
        times.append((time.process_time() - start) / some)
    return min(times)


def problem(chains: int) -> tuple[HiddenMarkovModel, list[np.ndarray]]:
    """Return a model of 72 steps and six fields, and counts simulated from it."""
    rng = seeded_rng(chains)
    grid = ChainGrid(Field("region", tuple(range(chains))), Field("month", tuple(range(STEPS))))
    fields = tuple(Field(f"field {i}", tuple(range(k))) for i, k in enumerate(SIZES))
    model = HiddenMarkovModel(grid, fields, STATES)
    states = np.repeat(rng.integers(0, STATES, (chains, STEPS // 6)), 6, axis=1)
    counts = [rng.multinomial(PER_CELL, rng.dirichlet(np.full(k, 2.0), STATES)[states]) for k in SIZES]
    return model, [table.astype(float) for table in counts]


def sweep_times(chains: int, repeats: int) -> dict[str, float]:
    """Return the seconds of one sweep of every sampler."""
    model, counts = problem(chains)
    rng = secure_rng()
    state = model.prior.start(1, model.grid.shape, rng)
    found = {"plain, or plug-in noised counts": seconds(lambda: gibbs_sweep(model.prior, state, counts, rng), repeats)}
    seen = np.ones(model.grid.shape, dtype=bool)
    for kind in ("laplace", "gaussian"):
        noise = IntegerNoise(kind, 4.0)  # type: ignore[arg-type]
        noisy = tuple(noise.add(t.astype(np.int64).ravel(), seeded_rng(1)).reshape(-1, t.shape[-1]) for t in counts)
        latent = LatentCounts(noisy, (noise,) * len(SIZES))
        sizes = latent.start(1)

        def aware(latent: LatentCounts = latent, sizes: Any = sizes) -> None:
            noisy_sweep(model.prior, state, sizes, latent, seen, rng)

        found[f"aware of {kind} noise"] = seconds(aware, max(repeats // 3, 1))
    tempered = TemperedHiddenMarkov(model, chains * STEPS * PER_CELL, temperature=50.0)
    found["tempered"] = seconds(lambda: tempered.sweep(state, counts, rng), max(repeats // 3, 1))
    return found


def jax_paths(chains: int, repeats: int) -> tuple[float, float]:
    """Return the seconds of one forward filter and backward draw, ours and in bare JAX (compiled beforehand)."""
    import jax
    import jax.numpy as jnp

    model, counts = problem(chains)
    state = model.prior.start(1, model.grid.shape, seeded_rng(1))
    logs, rng = state.log_emission(counts), secure_rng()
    ours = seconds(lambda: sample_paths(logs, state.initial, state.transition, rng), repeats)
    with jax.enable_x64(True):
        change, first = jnp.asarray(state.transition[0]), jnp.asarray(state.initial[0])
        emission = jnp.swapaxes(jnp.asarray(logs[0]), 0, 1)

        def pick(weight: Any, u: Any) -> Any:
            below = jnp.cumsum(weight, -1)
            return (below[:, :-1] < u * below[:, -1:]).sum(-1)

        @jax.jit
        def paths(emission: Any, uniform: Any) -> Any:
            def forwards(predicted: Any, logs: Any) -> Any:
                now = predicted * jnp.exp(logs - logs.max(-1, keepdims=True))
                now = now / now.sum(-1, keepdims=True)
                return now @ change, now

            def backwards(z: Any, now: Any) -> Any:
                z = pick(now[0] * change.T[z], now[1])
                return z, z

            _, filtered = jax.lax.scan(forwards, jnp.broadcast_to(first, emission.shape[1:]), emission)
            last = pick(filtered[-1], uniform[-1])
            _, rest = jax.lax.scan(backwards, last, (filtered[:-1], uniform[:-1]), reverse=True)
            return jnp.concatenate([rest, last[None]])

        shape = (STEPS, chains, 1)
        theirs = seconds(lambda: paths(emission, rng.random(shape)).block_until_ready(), repeats)
    return ours, theirs


def hmmlearn_times(chains: int, iterations: int) -> tuple[float, float]:
    """Return the seconds of one of hmmlearn's EM iterations, and the log-likelihood it reaches.

    Six fields with the same total in a cell are one multinomial over all their categories, up to a constant.
    """
    from hmmlearn import hmm

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # it announces a change of 2023
    model, counts = problem(chains)
    rows = np.concatenate(counts, axis=-1).reshape(-1, sum(SIZES)).astype(int)
    peer = hmm.MultinomialHMM(
        STATES, n_trials=PER_CELL * len(SIZES), n_iter=iterations, tol=-np.inf, random_state=1, implementation="scaling"
    )
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit(rows, [STEPS] * chains)
    spent = time.process_time() - start
    cuts = np.cumsum(SIZES)[:-1]
    emissions = tuple(part[None] * len(SIZES) for part in np.split(np.maximum(peer.emissionprob_, 1e-12), cuts, axis=1))
    state = model.prior.start(1, model.grid.shape, seeded_rng(1))
    fitted = HiddenMarkovPosterior(model.fields, peer.startprob_[None], peer.transmat_[None], emissions, state.states)
    return spent / iterations, float(fitted.log_likelihood(counts)[0])


def numpyro_times(chains: int, draws: int) -> tuple[float, float]:
    """Return the seconds of one draw of NumPyro's sampler (NUTS, states summed out), and its mean log-likelihood."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax.scipy.special import logsumexp
    from numpyro.infer import MCMC, NUTS

    _, counts = problem(chains)
    tables = [jnp.asarray(np.swapaxes(t, 0, 1)) for t in counts]

    def model() -> None:
        first = numpyro.sample("initial", dist.Dirichlet(jnp.ones(STATES)))
        change = numpyro.sample("transition", dist.Dirichlet(jnp.ones((STATES, STATES))))
        logs = 0.0
        for i, (table, size) in enumerate(zip(tables, SIZES, strict=True)):
            theta = numpyro.sample(f"theta{i}", dist.Dirichlet(jnp.ones((STATES, size))))
            logs = logs + table @ jnp.log(theta).T

        def step(alpha: Any, row: Any) -> Any:
            return logsumexp(alpha[:, :, None] + jnp.log(change), axis=1) + row, None

        alpha, _ = jax.lax.scan(step, jnp.log(first) + logs[0], logs[1:])
        numpyro.deterministic("likelihood", logsumexp(alpha, axis=1).sum())
        numpyro.factor("data", logsumexp(alpha, axis=1).sum())

    start = time.process_time()
    sampler = MCMC(NUTS(model), num_warmup=draws, num_samples=draws, progress_bar=False)
    sampler.run(jax.random.PRNGKey(1))
    likelihood = np.asarray(sampler.get_samples()["likelihood"])
    return (time.process_time() - start) / (2 * draws), float(likelihood[len(likelihood) // 2 :].mean())


def events_file(path: Path, rows: int) -> HiddenMarkovModel:
    """Write a Parquet file of events and return the model that reads it."""
    columns = ", ".join(f"'k' || (hash(range + {i}) % {k}) AS field{i}" for i, k in enumerate(SIZES))
    query = f"SELECT 'r' || (hash(range) % 18) AS region, (hash(range * 7) % {STEPS})::INTEGER AS month, {columns}"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query} FROM range({rows})) TO '{path}' (FORMAT parquet)")
    grid = ChainGrid(Field("region", tuple(f"r{i}" for i in range(18))), Field("month", tuple(range(STEPS))))
    fields = tuple(Field(f"field{i}", tuple(f"k{j}" for j in range(k))) for i, k in enumerate(SIZES))
    return HiddenMarkovModel(grid, fields, STATES)


def counting_times(rows: int, repeats: int) -> tuple[float, float, float]:
    """Return the seconds to count events through the table reader, by hand in DuckDB, and to add secure noise."""
    with tempfile.TemporaryDirectory(prefix="sottovoce-bench-") as folder:
        path = Path(folder) / "events.parquet"
        model = events_file(path, rows)
        by_hand = " UNION ALL ".join(
            f"SELECT {i}, region, month, field{i}, count(*) FROM '{path}' GROUP BY ALL" for i in range(len(SIZES))
        )
        with open_table(path) as table, duckdb.connect() as connection:
            ours = seconds(lambda: table.read(model, model.tables.columns), repeats)
            hand = seconds(lambda: connection.execute(by_hand).fetchall(), repeats)
            statistics = table.read(model, model.tables.columns)
    mechanism = model.noisy_counts(rows, ApproxDP(1.0, 1e-6), "gaussian")
    return ours, hand, seconds(lambda: mechanism.release(statistics), 1)


def main(quick: bool = False) -> None:
    """Print the tables."""
    repeats = 3 if quick else 20
    small, large = (sweep_times(chains, repeats) for chains in (18, 180))
    rows = [
        (
            name,
            f"{1e3 * small[name]:.2f} ms",
            f"{1 / small[name]:.0f}",
            f"{1e3 * large[name]:.2f} ms",
            f"{1 / large[name]:.0f}",
            f"{large[name] / small[name]:.1f}x",
        )
        for name in small
    ]
    title = f"One Gibbs sweep, {STEPS} steps, {len(SIZES)} fields, {STATES} states"
    show(title, ("", "18 chains", "sweeps/s", "180 chains", "sweeps/s", "ten times the cells"), rows)

    rows = []
    for chains in (18, 180):
        ours, theirs = jax_paths(chains, repeats)
        rows.append((f"{chains} chains", f"{1e3 * ours:.2f} ms", f"{1e3 * theirs:.2f} ms", f"{theirs / ours:.2f}x"))
    show("Forward filter and backward draw", ("", "ours, compiled where it pays", "bare JAX", "JAX / ours"), rows)

    model, counts = problem(18)
    sweeps = 60 if quick else 300
    start = time.process_time()
    posterior = model.fit(counts, sweeps=sweeps, burn_in=sweeps // 2, rng=seeded_rng(1))
    spent = (time.process_time() - start) / sweeps
    level = float(posterior.log_likelihood(counts).mean())
    step, best = hmmlearn_times(18, 20 if quick else 100)
    draw, reached = numpyro_times(18, 20 if quick else 150)
    show(
        "The same data, 18 chains: seconds of a step and the log-likelihood reached",
        ("", "a step is", "time", "ratio", "log-likelihood"),
        [
            ("sottovoce, Gibbs", "a sweep", f"{1e3 * spent:.2f} ms", "1.0x", f"{level:.1f}"),
            ("hmmlearn, EM", "an iteration", f"{1e3 * step:.2f} ms", f"{step / spent:.1f}x", f"{best:.1f}"),
            ("NumPyro, NUTS", "a draw", f"{1e3 * draw:.2f} ms", f"{draw / spent:.0f}x", f"{reached:.1f}"),
        ],
    )

    rows = []
    for events in (39_000, 390_000):
        ours, hand, noise = counting_times(events, 2 if quick else 5)
        rows.append((f"{events:,}", f"{ours:.3f} s", f"{hand:.3f} s", f"{ours / hand:.2f}x", f"{noise:.2f} s"))
    heads = ("events", "table reader", "by hand in DuckDB", "ratio", "secure noise on all cells")
    show("Events to six tables of 18 x 72 cells", heads, rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    main(parser.parse_args().quick)
