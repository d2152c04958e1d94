"""Whether the posteriors of one's own models are right: calibration and coverage of all eight, and sites joined.

    python benchmarks/own_models.py OUT [--fits 64] [--seconds 250] [--workers 16]

For every model, ε and n: unknowns from the prior, records from the model, counts with discrete Laplace noise of scale
2/ε (pure ε, one record replaced), one fit. Ranks of the truth among thinned draws must be uniform, and 95 % intervals
hold the truth 93 to 97 % of the time. Partial results are written as they come.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from papers.own_models import WORKED

from benchmarks.timing import show
from sottovoce.facts import Cells, Facts, Number
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.models.cell_masses import masses
from sottovoce.models.likelihood import plan_for
from sottovoce.models.observation import Observed
from sottovoce.models.program import program_for
from sottovoce.models.sampling import Sampler

EPSILONS, SIZES = (0.1, 1.0), (2_000, 20_000)
BINS, RANKED = 20, 39
"""Ranks among 39 thinned draws, of which each has forty equally likely values, two a bin."""


def noisy(shares: Any, n: int, noise: IntegerNoise, rng: np.random.Generator) -> Any:
    pi = np.clip(np.asarray(shares, dtype=np.float64), 0, 1)
    p = -np.expm1(-1 / noise.scale)
    return rng.multinomial(n, pi / pi.sum()) + rng.geometric(p, pi.size) - rng.geometric(p, pi.size)


def shortest(draws: Any, level: float = 0.95) -> tuple[float, float]:
    x = np.sort(draws)
    held = int(np.ceil(level * len(x)))
    widths = x[held - 1 :] - x[: len(x) - held + 1]
    at = int(np.argmin(widths))
    return x[at], x[at + held - 1]


def judged(truth: dict[str, Any], draws: dict[str, Any]) -> dict[str, list[Any]]:
    """Return for each number its rank among thinned draws, and whether two kinds of intervals hold it."""
    out: dict[str, list[Any]] = {}
    for name, value in truth.items():
        flat = np.asarray(draws[name]).reshape(-1, max(np.size(value), 1))
        for k, true in enumerate(np.ravel(value)):
            x = flat[:, k]
            low, high = shortest(x)
            a, b = np.quantile(x, [0.025, 0.975])
            rank = int((x[:: len(x) // RANKED][:RANKED] < true).sum()) * BINS // (RANKED + 1)
            out[f"{name}[{k}]"] = [rank, int(low <= true <= high), int(a <= true <= b), float(x.mean() - true)]
    return out


def calibrate(task: tuple[str, float, int, int, float, str]) -> dict[str, Any]:
    name, epsilon, n, fits, until, out = task
    worked, noise = WORKED[name], IntegerNoise("laplace", 2 / epsilon)
    rng = np.random.default_rng([list(WORKED).index(name), int(10 * epsilon), n])
    began = time.time()
    with jax.enable_x64(True):
        blank = Observed(
            np.full(worked.cells.size, n // worked.cells.size), n, "laplace", noise.scale, cells=worked.cells
        )
        program = program_for(worked.model, {"cells": blank}, single=True, form="exact")
        names = program.check()
        truths, tables = [], []
        for _ in range(fits):
            key = jax.random.PRNGKey(int(rng.integers(2**31)))
            with numpyro.handlers.seed(rng_seed=key), numpyro.handlers.trace() as trace:
                table = program.tables()["cells"]
            truths.append({k: np.asarray(trace[k]["value"]) for k in names})
            tables.append(noisy(table, n, noise, rng))
        plan = functools.reduce(lambda a, b: a.wider(b), (plan_for(t, n, noise) for t in tables))
        program = dataclasses.replace(program, plans={"cells": plan})
    sampler = Sampler(program, chains=2, warmup=400, draws=500)
    sampler.run({"cells": tables[0]}, seed=0)
    compiled = time.time() - began
    results, diverged, took = [], 0, []
    for i, (truth, table) in enumerate(zip(truths, tables, strict=True)):
        if time.time() > until:
            break
        before = time.time()
        found = sampler.run({"cells": table}, seed=i)
        took.append(time.time() - before)
        diverged += found.diverged
        results.append(judged(truth, found.draws))
    made = {"model": name, "epsilon": epsilon, "n": n, "fits": len(results), "compile_s": compiled, "fit_s": took}
    made |= {"diverged": diverged, "plan": dataclasses.asdict(plan), "results": results}
    with Path(out).open("a", encoding="utf-8") as file:
        file.write(json.dumps(made) + "\n")
    return made


def joined(task: tuple[str, int, float, str]) -> dict[str, Any]:
    """Three sites of different size and promise in one model, beside one pooled release at the middle promise."""
    kind, fits, until, out = task
    edges = [*map(float, range(20)), float("inf")]
    cells = Cells(Facts(days=Number(0, 60, missing=0)), {"days": edges})
    sites = {"north": (5000, 0.3), "south": (2000, 1.0), "west": (800, 3.0)}

    def hierarchical() -> Any:
        shape = numpyro.sample("shape", dist.LogNormal(0.3, 0.3))
        middle = numpyro.sample("middle", dist.Normal(2.0, 0.4))
        spread = numpyro.sample("spread", dist.HalfNormal(0.3))
        off = numpyro.sample("off", dist.Normal(0, 1).expand([3]).to_event(1))
        scales = jnp.exp(middle + spread * off)
        return {
            site: masses(lambda t, s=scales[i]: -jnp.expm1(-((t / s) ** shape)), edges) for i, site in enumerate(sites)
        }

    def common() -> Any:
        shape = numpyro.sample("shape", dist.LogNormal(0.3, 0.3))
        middle = numpyro.sample("middle", dist.Normal(2.0, 0.4))
        table = masses(lambda t: -jnp.expm1(-((t / jnp.exp(middle)) ** shape)), edges)
        return dict.fromkeys(sites if kind != "pooled" else ["all"], table)

    chosen = dict(sites) if kind != "pooled" else {"all": (7800, 1.0)}
    model = hierarchical if kind == "hierarchical" else common
    rng = np.random.default_rng([7, len(kind)])
    with jax.enable_x64(True):
        blank = {s: Observed(np.full(20, n // 20), n, "laplace", 2 / e, cells=cells) for s, (n, e) in chosen.items()}
        program = program_for(model, blank, single=False, form="exact")
        names = program.check()
        truths, tables = [], []
        for _ in range(fits):
            with (
                numpyro.handlers.seed(rng_seed=jax.random.PRNGKey(int(rng.integers(2**31)))),
                numpyro.handlers.trace() as trace,
            ):
                made = program.tables()
            truths.append({k: np.asarray(trace[k]["value"]) for k in names})
            laws = {s: IntegerNoise("laplace", 2 / e) for s, (_, e) in chosen.items()}
            tables.append({s: noisy(made[s], chosen[s][0], laws[s], rng) for s in chosen})
        plans = {
            s: functools.reduce(lambda a, b: a.wider(b), (plan_for(t[s], chosen[s][0], laws[s]) for t in tables))
            for s in chosen
        }
        program = dataclasses.replace(program, plans=plans)
    sampler = Sampler(program, chains=2, warmup=400, draws=500)
    results = []
    for i, (truth, table) in enumerate(zip(truths, tables, strict=True)):
        if time.time() > until:
            break
        results.append(judged(truth, sampler.run(table, seed=i).draws))
    record = {"model": f"sites: {kind}", "epsilon": 0, "n": 7800, "fits": len(results), "results": results}
    with Path(out).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    return record


def summarised(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return, for each model, the rank test (χ² over all its fits) and the coverage for each ε and n."""
    from scipy.stats import chi2

    out: dict[str, Any] = {}
    for name in dict.fromkeys(r["model"] for r in records):
        mine = [r for r in records if r["model"] == name]
        numbers = sorted({key for r in mine for fit in r["results"] for key in fit})
        ps = {}
        for key in numbers:
            counts = np.bincount([f[key][0] for r in mine for f in r["results"]], minlength=BINS)
            expected = counts.sum() / BINS
            ps[key] = float(chi2.sf(((counts - expected) ** 2 / expected).sum(), BINS - 1))
        cover = {
            f"eps={r['epsilon']} n={r['n']}": [
                round(float(np.mean([f[k][place] for f in r["results"] for k in f])), 4) for place in (1, 2)
            ]
            for r in mine
            if r["results"]
        }
        rmse = {k: float(np.sqrt(np.mean([f[k][3] ** 2 for r in mine for f in r["results"]]))) for k in numbers}
        seconds = [t for r in mine for t in r.get("fit_s", [])]
        out[name] = {
            "fits": sum(r["fits"] for r in mine),
            "least rank p": min(ps.values(), default=1.0),
            "numbers": len(ps),
            "least p times numbers": min(ps.values(), default=1.0) * len(ps),
            "coverage shortest, central": cover,
            "rmse": rmse,
            "seconds a fit, largest": max(seconds, default=None),
            "compile": max((r.get("compile_s", 0) for r in mine), default=None),
            "diverged": sum(r.get("diverged", 0) for r in mine),
        }
    return out


def run(task: tuple[str, Any]) -> dict[str, Any]:
    kind, given = task
    if time.time() > given[-2]:
        return {"model": f"no time for {given[:3]}", "fits": 0, "results": [], "epsilon": 0, "n": 0}
    try:
        return calibrate(given) if kind == "calibrate" else joined(given)
    except Exception as error:
        return {"model": f"FAILED {given[:3]}: {error!r}", "fits": 0, "results": [], "epsilon": 0, "n": 0}


def main(quick: bool = False) -> None:
    """Calibrate every model, and show what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        some = ["--fits", "2", "--sizes", "2000", "--epsilons", "1"] if quick else []
        command([folder, "--workers", str(os.cpu_count() or 1), "--seconds", "120" if quick else "3600", *some])
        found = json.loads((Path(folder) / "models.json").read_text(encoding="utf-8"))
    rows = [
        [name, str(one["fits"]), f"{one['least p times numbers']:.3f}", str(one["coverage shortest, central"])]
        for name, one in found.items()
    ]
    show("Models of one's own", ["model", "fits", "least p of the ranks", "coverage of 95 %"], rows)


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--fits", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=250)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--models", nargs="*", default=list(WORKED))
    given = parser.parse_args(words)
    given.out.mkdir(parents=True, exist_ok=True)
    lines, until = given.out / "models.jsonl", time.time() + given.seconds
    lines.write_text("", encoding="utf-8")
    heavy = ("SIR epidemic", "two-component mixture", "Weibull, censored", "hierarchical wards", "dose-response")
    names = sorted(given.models, key=lambda name: heavy.index(name) if name in heavy else 9)
    tasks: list[tuple[str, Any]] = [
        ("calibrate", (name, e, n, given.fits, until, str(lines)))
        for name in names
        for n in given.sizes
        for e in given.epsilons
    ]
    tasks += [("joined", (kind, 2 * given.fits, until, str(lines))) for kind in ("hierarchical", "common", "pooled")]
    with get_context("spawn").Pool(given.workers) as pool:
        records = []
        for record in pool.imap_unordered(run, tasks):
            records.append(record)
            (given.out / "models.json").write_text(json.dumps(summarised(records), indent=1), encoding="utf-8")
            print(record["model"], record["epsilon"], record["n"], record["fits"], flush=True)


if __name__ == "__main__":
    command()
