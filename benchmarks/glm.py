"""How fast certified Langevin chains are, beside the bare matrix products they are made of and beside NumPyro's NUTS.

``python -m benchmarks.glm --gpu`` refuses to run without a GPU and goes to ten million rows. It needs jax, numpyro,
numpy, scipy, randomgen and the data/ of this checkout.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from papers.regression_data import load_regression

from benchmarks.timing import show
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.device_placement import Placement, placed
from sottovoce.inference.regression.langevin import _gradient
from sottovoce.inference.regression.losses import Logistic
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.privacy.randomness import secure_rng, seeded_rng


def fastest(work: Callable[[], Any], *, repeats: int) -> float:
    """Return the seconds of the fastest of several runs, after one to warm up."""
    jax.block_until_ready(work())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - start)
    return min(times)


def gradient_ratio(n: int, d: int, chains: int, precision: str, *, repeats: int) -> tuple[float, float]:
    """Return the seconds of one gradient pass and its ratio to the two bare products X·W' and S'·X."""
    with jax.enable_x64(precision == "float64"):
        key = jax.random.PRNGKey(0)
        X = jax.random.normal(key, (n, d), precision) / math.sqrt(d)
        y = jnp.where(X[:, 0] > 0, 1.0, -1.0).astype(precision)
        W = jax.random.normal(key, (chains, d), precision)
        S = jax.random.normal(key, (n, chains), precision)
        high = jax.lax.Precision.HIGHEST
        products = jax.jit(lambda X, W, S: (jnp.matmul(X, W.T, precision=high), jnp.matmul(S.T, X, precision=high)))
        loss = Logistic()
        gradient = jax.jit(lambda X, y, W: _gradient(loss, X, y, W, jnp.asarray(1.0, precision)))
        bare, ours = [], []
        for _ in range(repeats):  # in turn, so that a busy machine slows both alike
            bare.append(fastest(lambda: products(X, W, S), repeats=1))
            ours.append(fastest(lambda: gradient(X, y, W), repeats=1))
    return min(ours), min(ours) / min(bare)


def step_seconds(n: int, d: int, precision: str, steps: int) -> float:
    """Return the seconds of one Langevin step of one chain on n random rows, transfers excluded."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32) / np.float32(math.sqrt(d))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    timed = {}
    for count in (1, steps + 1):
        made = DiffusedRegression(Design(Logistic(), d, 1.0), n, 1.0, 0.1, n_steps=count, precision=precision)
        with placed(Placement(chunk_rows=n)):
            timed[count] = fastest(
                lambda m=made: m.release((X, y), seeded_rng(0), accept_unproven=True).value, repeats=2
            )  # type: ignore[misc]
    return (timed[steps + 1] - timed[1]) / steps


def shared_rows() -> tuple[int, float]:
    """Return how many devices share the rows here, and how far their numbers are from one device's."""
    rng = seeded_rng(2)
    X = rng.standard_normal((20_001, 50)) / 7
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    made = DiffusedRegression(Design(Logistic(), 50, 1.0), 20_001, 1.0, 0.1, draws=2, n_steps=50)
    one = made.release((X, y), seeded_rng(3)).value
    with placed(Placement(devices=tuple(jax.devices()))):
        all_ = made.release((X, y), seeded_rng(3)).value
    return len(jax.devices()), float(np.abs(one - all_).max())


def four_devices() -> tuple[int, float]:
    """Return what `shared_rows` does in a process with four simulated devices."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "benchmarks.glm", "--shared-rows"]
    run = subprocess.run(command, env=os.environ | flags, capture_output=True, text=True, check=True)
    count, gap = json.loads(run.stdout)
    return int(count), float(gap)


def nuts_seconds(draws: int) -> tuple[float, float, int]:
    """Return the seconds of `draws` samples of one posterior on Abalone: certified chains, then NUTS; and our steps.

    The posterior is that of a logistic regression whose records count a tenth. NUTS is warmed up, and since it compiles
    its loop for each run, its time is the difference between a long run and a short one.
    """
    data = load_regression("abalone")
    n, d = data.X.shape
    weight, m = 0.1, 1e-3 * n
    made = DiffusedRegression(Design(Logistic(), d, 1.0), n, m, weight, draws)
    ours = fastest(lambda: made.release((data.X, data.y), secure_rng()).value, repeats=3)
    X, y = jnp.asarray(data.X), jnp.asarray(data.y)

    def model() -> None:
        w = numpyro.sample("w", numpyro.distributions.Normal(jnp.zeros(d), 1 / math.sqrt(m)).to_event(1))
        numpyro.factor("data", -weight * jnp.sum(jax.nn.softplus(-y * (X @ w))))

    def run(samples: int) -> float:
        sampler = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=300, num_samples=samples, progress_bar=False)
        sampler.warmup(jax.random.PRNGKey(0))
        sampler.post_warmup_state = sampler.last_state

        def go_on() -> jax.Array:
            sampler.run(sampler.post_warmup_state.rng_key)
            return sampler.get_samples()["w"]

        return fastest(go_on, repeats=1)

    theirs = (run(9 * draws) - run(draws)) / 8
    return ours, theirs, made.chain.n_steps


def gradients(quick: bool) -> None:
    """Show a gradient pass beside the two bare products."""
    size, rows = 20_000 if quick else 200_000, []
    for precision in ("float64", "float32"):
        for chains in (1, 32):
            seconds, ratio = gradient_ratio(size, 100, chains, precision, repeats=5 if quick else 20)
            rows.append([f"{chains} chain(s), {precision}", f"{seconds * 1e3:.2f} ms", f"{ratio:.2f}"])
    title = f"A gradient pass on {jax.devices()[0].device_kind}, n = {size:,}, d = 100"
    show(title, ["", "time", "ratio to two bare matrix products"], rows)


def releases(quick: bool) -> None:
    """Show many samples of one posterior beside NUTS."""
    draws = 50 if quick else 500
    ours, theirs, steps = nuts_seconds(draws)
    show(
        f"{draws} samples of one posterior on Abalone",
        ["", "certified chains", "NUTS", "ratio"],
        [["time", f"{ours:.3f} s", f"{theirs:.3f} s", f"{ours / theirs:.2f}"]],
        f"Ours: {draws} independent chains of {steps:,} steps, private after every step. NUTS: one chain, without its "
        "300 steps to warm up, private only if it has converged.",
    )


def steps(quick: bool, gpu: bool) -> None:
    """Show how a step grows with the number of rows, and whether many devices agree with one."""
    rows = []
    for n in [10**k for k in range(4, 6 if quick else 8 if gpu else 7)]:
        count = 1000 if gpu and n < 10**6 else 100 if gpu else max(20, 4_000_000 // n)
        times = [step_seconds(n, 100, precision, count) for precision in ("float64", "float32")]
        rows.append([f"{n:,} rows", *(f"{seconds * 1e3:.3f} ms" for seconds in times)])
    devices, gap = four_devices()
    note = f"{devices} simulated devices that share the rows differ from one by {gap:.1e} at most."
    show("One Langevin step, d = 100", ["", "float64", "float32"], rows, note)


def main(quick: bool = False, gpu: bool = False) -> None:
    """Measure and show."""
    if gpu and jax.devices()[0].platform != "gpu":
        raise SystemExit(f"--gpu needs a GPU that JAX sees. Got {jax.devices()[0].platform}")
    gradients(quick)
    releases(quick)
    steps(quick, gpu)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, a minute")
    parser.add_argument("--gpu", action="store_true", help="refuse to run without a GPU; go to 10 million rows")
    parser.add_argument("--shared-rows", action="store_true", help="only compare all devices with one")
    arguments = parser.parse_args()
    if arguments.shared_rows:
        print(json.dumps(shared_rows()))
    else:
        main(arguments.quick, arguments.gpu)
