"""Whether the posteriors of one's own models are right: calibration and coverage of all eight, and sites joined.

    python benchmarks/own_models.py OUT [--rounds 2] [--seconds 400] [--workers 16] [--seed 0]

For every model, ε and n: unknowns from the prior, records from the model, counts with discrete Laplace noise of scale
2/ε (pure ε, one record replaced), one fit, over and over. The rank of the truth among 39 thinned draws must be uniform
on forty values, and 95 % intervals hold the truth 93 to 97 % of the time. Partial results are written as they come.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
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
from scipy.stats import chi2

from sottovoce.inference.custom.cell_masses import masses
from sottovoce.inference.custom.fitting import fit_model
from sottovoce.inference.custom.likelihood import plan_for
from sottovoce.inference.custom.observation import Observed
from sottovoce.inference.custom.program import Program, program_for
from sottovoce.inference.custom.sampling import Sampler
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.records.facts import Cells, Facts, Number

EPSILONS, SIZES = (0.1, 1.0), (2_000, 20_000)
ROUND = 26
"""Fits of a world that are done in one go; two rounds of each of four worlds are 208 fits of a model."""
WARMUP, DRAWS, RANKED, BINS = 200, 160, 39, 20
"""One chain a fit. The truth's rank among 39 draws far apart has forty equally likely values, two a bin; from the
first to the last but one of them are an interval that holds exactly 95 %, free of what few draws do to quantiles."""


@dataclasses.dataclass(frozen=True)
class World:
    """A model, and the (n, ε) of every site whose noisy counts it explains; one without a name is the only one."""

    name: str
    model: Callable[..., Any]
    cells: Cells
    sites: Mapping[str, tuple[int, float]]

    @property
    def label(self) -> str:
        """The world in a few words."""
        return ", ".join(f"eps={e:g} n={n}" for n, e in self.sites.values())

    def noise(self, site: str) -> IntegerNoise:
        """Return the noise that a site adds to each count."""
        return IntegerNoise("laplace", 2 / self.sites[site][1])

    def program(self) -> Program:
        """Return the model with counts yet to come."""
        blank = {
            site: Observed(
                np.full(self.cells.size, n // self.cells.size), n, "laplace", self.noise(site).scale, cells=self.cells
            )
            for site, (n, _) in self.sites.items()
        }
        return program_for(self.model, blank, single="cells" in blank, form="exact")

    def draw(self, program: Program, count: int, seed: int = 0) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return so many truths from the prior, and noisy counts of records from each."""
        names = program.check()

        @jax.jit
        @jax.vmap
        def one(key: Any) -> tuple[Any, Any]:
            with numpyro.handlers.seed(rng_seed=key), numpyro.handlers.trace() as trace:
                tables = program.tables()
            return {name: trace[name]["value"] for name in names}, tables

        place = list(WORKED).index(self.name) if self.name in WORKED else 99  # sites joined and pooled: the same truths
        truths, shares = jax.device_get(one(jax.random.split(jax.random.PRNGKey(1000 * seed + place), count)))
        rng = np.random.default_rng([seed, place, *(int(10 * e) + n for n, e in self.sites.values())])
        tables = [
            {site: noisy(shares[site][k], n, self.noise(site), rng) for site, (n, _) in self.sites.items()}
            for k in range(count)
        ]
        return [{name: part[k] for name, part in truths.items()} for k in range(count)], tables


def noisy(shares: Any, n: int, noise: IntegerNoise, rng: np.random.Generator) -> Any:
    pi = np.clip(np.asarray(shares, dtype=np.float64), 0, 1)
    p = -np.expm1(-1 / noise.scale)
    return rng.multinomial(n, pi / pi.sum()) + rng.geometric(p, pi.size) - rng.geometric(p, pi.size)


def _sites() -> list[World]:
    """Three sites of different size and promise: a hierarchy, one law for all, and one release of all their records."""
    edges = [*map(float, range(20)), float("inf")]
    cells = Cells(Facts(days=Number(0, 60, missing=0)), {"days": edges})
    sites = {"north": (5000, 0.3), "south": (2000, 1.0), "west": (800, 3.0)}

    def weibull(shape: Any, log_scale: Any) -> Any:
        return masses(lambda t: -jnp.expm1(-((t / jnp.exp(log_scale)) ** shape)), edges)

    def hierarchy() -> Any:
        shape = numpyro.sample("shape", dist.LogNormal(0.3, 0.3))
        middle = numpyro.sample("middle", dist.Normal(2.0, 0.4))
        spread = numpyro.sample("spread", dist.LogNormal(-1.5, 0.5))
        log_scales = numpyro.sample("log scales", dist.Normal(middle, spread).expand([3]).to_event(1))
        return {site: weibull(shape, log_scales[i]) for i, site in enumerate(sites)}

    def common(names: Sequence[str]) -> Any:
        shape = numpyro.sample("shape", dist.LogNormal(0.3, 0.3))
        middle = numpyro.sample("middle", dist.Normal(2.0, 0.4))
        return dict.fromkeys(names, weibull(shape, middle))

    return [
        World("three sites, a hierarchy", hierarchy, cells, sites),
        World("three sites, one law", lambda: common(tuple(sites)), cells, sites),
        World("all records in one release", lambda: common(("all",)), cells, {"all": (7800, 1.0)}),
    ]


def worlds(names: Sequence[str], epsilons: Sequence[float], sizes: Sequence[int]) -> list[World]:
    """Return every world asked for; the longest fits first."""
    heavy = ("two-component mixture", "SIR epidemic", "Weibull, censored", "hierarchical wards", "dose-response")
    single = [
        World(name, WORKED[name].model, WORKED[name].cells, {"cells": (n, e)})
        for name in sorted(names, key=lambda name: heavy.index(name) if name in heavy else 9)
        for n in sorted(sizes, reverse=True)
        for e in epsilons
    ]
    return _sites() + single


@dataclasses.dataclass(frozen=True)
class Task:
    """One round of a world, or the timing of its whole fit; given as words, for functions do not travel."""

    place: int
    names: tuple[str, ...]
    epsilons: tuple[float, ...]
    sizes: tuple[int, ...]
    rounds: int
    turn: int
    until: float
    seed: int

    def run(self) -> dict[str, Any]:
        """Do it, or say why not."""
        world = worlds(self.names, self.epsilons, self.sizes)[self.place]
        made: dict[str, Any] = {"model": world.name, "label": world.label, "fits": 0, "results": []}
        if time.time() > self.until:
            return made
        try:
            return made | (_timed(world) if self.turn < 0 else self._round(world))
        except Exception as error:
            return made | {"failed": repr(error)}

    def _round(self, world: World) -> dict[str, Any]:
        began = time.process_time()
        with jax.enable_x64(True):
            program = world.program()
            truths, tables = world.draw(program, self.rounds * ROUND, self.seed)
            plans = {
                site: functools.reduce(
                    lambda a, b: a.wider(b), (plan_for(t[site], n, world.noise(site)) for t in tables)
                )
                for site, (n, _) in world.sites.items()
            }
            program = dataclasses.replace(program, plans=plans)
        sampler = Sampler(program, chains=1, warmup=WARMUP, draws=DRAWS)
        made: dict[str, Any] = {"fit_s": [], "diverged": 0, "results": []}
        for i in range(self.turn * ROUND, (self.turn + 1) * ROUND):
            if time.time() > self.until:
                break
            found = sampler.run(tables[i], seed=1000 * self.seed + i)
            made["fit_s"].append(round(time.process_time() - began, 3))  # the first one compiles
            began = time.process_time()
            made["diverged"] += found.diverged
            made["results"].append(judged(truths[i], found.draws))
        return made | {"fits": len(made["results"])}


def _timed(world: World) -> dict[str, Any]:
    """Return how long a fit takes as a user asks for it: four chains of 500 + 500, compiling
    included, in seconds of one processor and in seconds that passed."""
    with jax.enable_x64(True):
        _, tables = world.draw(world.program(), 1)
    (n, e), before, began = world.sites["cells"], time.process_time(), time.time()
    fit = fit_model(world.model, Observed(tables[0]["cells"], n, "laplace", 2 / e, cells=world.cells))
    least = min(part["ess"] for part in fit.diagnostics.values())
    return {"whole": [time.process_time() - before, time.time() - began, least, fit.diverged]}


def judged(truth: Mapping[str, Any], draws: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return of each number its rank, and the error of the mean."""
    out: dict[str, list[Any]] = {}
    for name, value in truth.items():
        flat = np.asarray(draws[name]).reshape(-1, max(np.size(value), 1))
        ranks = (flat[len(flat) // RANKED - 1 :: len(flat) // RANKED][:RANKED] < np.ravel(value)).sum(axis=0)
        for k, true in enumerate(np.ravel(value)):
            out[f"{name}[{k}]"] = [int(ranks[k]), round(float(flat[:, k].mean() - true), 6)]
    return out


def summarised(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return, for each model, the rank test (χ² over all its fits) and the coverage for each ε and n."""
    out: dict[str, Any] = {}
    for name in dict.fromkeys(r["model"] for r in records):
        mine = [r for r in records if r["model"] == name]
        fits = [(r["label"], fit) for r in mine for fit in r["results"]]
        numbers = sorted({key for _, fit in fits for key in fit})
        ps = {}
        for key in numbers:
            counts = np.bincount([fit[key][0] * BINS // (RANKED + 1) for _, fit in fits], minlength=BINS)
            expected = counts.sum() / BINS
            ps[key] = float(chi2.sf(((counts - expected) ** 2 / expected).sum(), BINS - 1))
        coverage = {}
        for label in sorted({label for label, _ in fits}):
            here = [fit[key] for at, fit in fits if at == label for key in numbers]
            by_rank = np.mean([0 < rank < RANKED for rank, _ in here])
            coverage[label] = [sum(at == label for at, _ in fits), round(float(by_rank), 4)]
        seconds = [s for r in mine for s in r.get("fit_s", [])[1:]]
        out[name] = {
            "fits": len(fits),
            "numbers": len(ps),
            "least p of the ranks, times their number": min(1.0, min(ps.values(), default=1.0) * max(len(ps), 1)),
            "fits and coverage": coverage,
            "coverage": round(float(np.mean([0 < f[k][0] < RANKED for _, f in fits for k in f])), 4) if fits else None,
            "rmse": {k: float(np.sqrt(np.mean([f[k][1] ** 2 for _, f in fits]))) for k in numbers},
            "seconds a chain of 360": [float(np.median(seconds)), max(seconds)] if seconds else None,
            "a whole fit: processor seconds, seconds, least effective draws, diverged": max(
                (r["whole"] for r in mine if "whole" in r), default=None
            ),
            "seconds of the first": max((r["fit_s"][0] for r in mine if r.get("fit_s")), default=None),
            "diverged": sum(r.get("diverged", 0) for r in mine),
            "failed": sorted({r["failed"] for r in mine if "failed" in r}),
            "ranks": {k: [f[k][0] for _, f in fits] for k in numbers},
        }
    return out


def _started(folder: str) -> None:
    """Let the processes share what they compile."""
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def main(quick: bool = False) -> None:
    """Calibrate every model, and show what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        some = ["--rounds", "1", "--sizes", "2000", "--epsilons", "1"] if quick else ["--seconds", "7200"]
        command([folder, "--workers", str(os.cpu_count() or 1), *some])
        found = json.loads((Path(folder) / "models.json").read_text(encoding="utf-8"))
    rows = [
        [
            name,
            str(one["fits"]),
            f"{one['least p of the ranks, times their number']:.3f}",
            str(one["fits and coverage"]),
        ]
        for name, one in found.items()
    ]
    from benchmarks.timing import show

    show("Models of one's own", ["model", "fits", "least p of the ranks", "coverage of 95 %"], rows)


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", nargs="*", default=list(WORKED))
    given = parser.parse_args(words)
    given.out.mkdir(parents=True, exist_ok=True)
    until = time.time() + given.seconds
    asked = worlds(given.models, given.epsilons, given.sizes)
    timed = [
        k for k, w in enumerate(asked) if w.sites.get("cells") == (max(given.sizes), min(given.epsilons))
    ]  # the slowest likelihoods
    places = [(k, turn) for turn in range(given.rounds) for k in range(len(asked))]
    places[len(asked) : len(asked)] = [(k, -1) for k in timed]
    tasks = [
        Task(k, tuple(given.models), tuple(given.epsilons), tuple(given.sizes), given.rounds, turn, until, given.seed)
        for k, turn in places
    ]
    records: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory() as cache,
        get_context("spawn").Pool(given.workers, _started, (cache,)) as pool,
    ):
        for record in pool.imap_unordered(Task.run, tasks):
            records.append(record)
            (given.out / "models.json").write_text(json.dumps(summarised(records)), encoding="utf-8")
            print(
                f"{record['model']}, {record['label']}: {record['fits']} fits {record.get('failed', '')}",
                flush=True,
            )


if __name__ == "__main__":
    command()
