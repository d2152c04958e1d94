"""Private hidden Markov models of two event logs: states on a map, their profiles, held-out likelihood."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from papers.event_logs import HONG_KONG, PORTUGAL, EventLog
from papers.event_scores import (
    FLOOR,
    Study,
    converged_temperature,
    noisy_tables,
    short_fit,
    tempered_temperature,
)
from papers.hmm_figures import draw_held_out, draw_maps, draw_profiles, matched
from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import write_csv
from sottovoce.inference.latent import HiddenMarkovPosterior, TemperedHiddenMarkov
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Statistics

__all__ = ["run", "run_fires"]

MAP_EPSILON = 5.0
"""ε of the map and the profiles, as in the thesis."""
NAIVE, HIDDEN = "naive Bayes", "hidden Markov, 10 states"
ROUTES = {
    NAIVE: ("none", "laplace", "gaussian", "tempered"),
    HIDDEN: ("none", "laplace", "gaussian", "tempered", "converged", "aware"),
}


@dataclass(frozen=True)
class Size:
    """How much to do."""

    epsilons: tuple[float, ...]
    splits: int
    aware_splits: int
    sweeps: int
    tempered_sweeps: int
    map_sweeps: int
    chains: int
    """Of the fits that know of the noise."""
    starts: int
    """Of the others, which have one chain, as in the thesis."""
    map_starts: int


FULL = Size((0.1, 0.3, 1.0, 3.0, 10.0), 10, 3, 80, 20, 160, 4, 8, 8)
QUICK = Size((1.0,), 1, 1, 8, 4, 16, 1, 1, 4)


@experiment(
    "hmm",
    "Private hidden Markov models of Hong Kong's road collisions",
    source="Geumlek 2020, Figures 4.3-4.7",
)
def run(setting: Setting) -> Outcome:
    """Fit the collisions: 18 districts, 72 months, six fields."""
    return _study(HONG_KONG, "hmm", setting)


@experiment(
    "hmm-fires",
    "Private hidden Markov models of Portugal's forest fires",
    source="Geumlek 2020, Figures 4.3-4.7",
)
def run_fires(setting: Setting) -> Outcome:
    """Fit the fires: 18 districts, 84 months, four fields."""
    return _study(PORTUGAL, "hmm-fires", setting)


def _study(log: EventLog, name: str, setting: Setting) -> Outcome:
    size = QUICK if setting.quick else FULL
    maps, profile = _maps(log, size, setting.seed, lambda f: setting.advance(0.2 * f))
    files = list(setting.save(draw_maps(log, maps), f"{name}-states"))
    files += setting.save(draw_profiles(log, profile), f"{name}-profiles")
    scores = _scores(log, size, setting.seed, lambda f: setting.advance(0.2 + 0.8 * f))
    files += setting.save(draw_held_out(size.epsilons, scores, log.name), f"{name}-held-out")
    files.append(_table(scores, size, setting.output / f"{name}-held-out.csv"))
    findings = (
        *_map_findings(maps, log),
        _states_in_use(log, size, setting.seed),
        *_score_findings(scores, size, float(np.median(log.counts()[0].sum(axis=-1)))),
    )
    return Outcome(tuple(files), findings)


def _maps(
    log: EventLog, size: Size, seed: int, advance: Callable[[float], None]
) -> tuple[dict[str, Any], HiddenMarkovPosterior]:
    """Return the state maps of a 3-state model, and the posterior behind the noisy one."""
    model, counts, rng = log.model(3), log.counts(), seeded_rng(seed)
    plan: dict[str, Any] = {"sweeps": size.map_sweeps, "burn_in": size.map_sweeps // 2, "rng": rng}
    plain = short_fit(model, counts, chains=1, starts=size.map_starts, **plan)
    advance(0.2)
    noisy = short_fit(model, noisy_tables(log, counts, "laplace", MAP_EPSILON, rng), chains=size.chains, **plan)
    advance(0.8)
    proven = _chain(log, tempered_temperature(log, 3, size.tempered_sweeps, MAP_EPSILON), size.tempered_sweeps, rng)
    supposed = _chain(log, converged_temperature(log, MAP_EPSILON), size.map_sweeps, rng)
    advance(1.0)
    shown = {
        "Laplace, noise-aware, ε = 5": (noisy, None),
        "tempered, ε = 5: half of its chain": (proven, None),
        "tempered, ε = 5: its last draw": (proven, -1),
        "if converged: half of its chain (far over ε = 5)": (supposed, None),
        "if converged, ε = 5: its last draw": (supposed, -1),
    }
    maps = {"no promise": plain.most_frequent_states}
    for title, (posterior, draw) in shown.items():
        states = posterior.most_frequent_states if draw is None else posterior.states[draw]
        maps[title] = matched(states, plain, posterior)
    return maps, _renamed(plain, noisy)


def _states_in_use(log: EventLog, size: Size, seed: int) -> Finding:
    """Say how many of 10 states hold a twentieth of the cells or more, with and without noise."""
    model, counts, rng = log.model(10), log.counts(), seeded_rng(seed + 1)
    plan: dict[str, Any] = {"sweeps": size.sweeps, "burn_in": size.sweeps // 2, "chains": 1, "starts": size.starts}
    plan["rng"] = rng
    noisy = noisy_tables(log, counts, "laplace", MAP_EPSILON, rng)
    used = []
    for posterior in (short_fit(model, counts, **plan), short_fit(model, noisy, noise_aware=False, **plan)):
        used.append(int(np.sum(posterior.state_probabilities.mean(axis=(0, 1)) >= 0.05)))
    return Finding(
        "given 10 states, Laplace noise leaves only two or three of them in use (§4.5)",
        used[1] <= 3,
        f"{used[1]} states hold a twentieth of the cells or more at ε = {MAP_EPSILON:g}; {used[0]} without noise",
    )


def _chain(log: EventLog, temperature: float, sweeps: int, rng: np.random.Generator) -> HiddenMarkovPosterior:
    """Return the second half of a tempered chain on the whole log."""
    counts = log.counts()
    n = int(counts[0].sum())
    statistics = Statistics(n, np.concatenate([t.ravel() for t in counts]).astype(np.float64))
    posterior = TemperedHiddenMarkov(log.model(3), n, temperature, sweeps, FLOOR).release(statistics, rng).value
    half: HiddenMarkovPosterior = posterior.after(sweeps // 2)
    return half


def _renamed(reference: HiddenMarkovPosterior, posterior: HiddenMarkovPosterior) -> HiddenMarkovPosterior:
    """Return the posterior with its states named as the reference's."""
    names = matched(np.arange(posterior.initial.shape[1]), reference, posterior)
    order = np.argsort(names)
    return HiddenMarkovPosterior(
        posterior.fields,
        posterior.initial[:, order],
        posterior.transition[:, order][:, :, order],
        tuple(theta[:, order] for theta in posterior.emissions),
        names[posterior.states],
    )


def _jobs(size: Size) -> Iterator[tuple[str, str, int, float, int]]:
    for model, routes in ROUTES.items():
        for route in routes:
            splits = size.aware_splits if route == "aware" else size.splits
            for i, epsilon in enumerate(size.epsilons):
                if route == "none" and i:  # the same at every ε
                    continue
                for split in range(splits):
                    yield model, route, i, epsilon, split


def _scores(log: EventLog, size: Size, seed: int, advance: Callable[[float], None]) -> dict[tuple[str, str], Any]:
    """Return the log-likelihood of a held-out event for every model and route: (ε, split)."""
    jobs = list(_jobs(size))
    found: dict[tuple[str, str], dict[tuple[int, int], float]] = {}
    for done, (model, route, i, epsilon, split) in enumerate(jobs):
        study = Study(log, 10, size.sweeps, size.tempered_sweeps, 100 * seed + split, size.chains, size.starts)
        score = study.naive_bayes if model == NAIVE else study.hidden_markov
        found.setdefault((model, route), {})[i, split] = score(route, epsilon)
        advance((done + 1) / len(jobs))
    out = {}
    for key, values in found.items():
        splits = max(split for _, split in values) + 1
        last = max(i for i, _ in values)
        rows = [min(i, last) for i in range(len(size.epsilons))]
        out[key] = np.array([[values[i, split] for split in range(splits)] for i in rows])
    return out


def _table(scores: dict[tuple[str, str], Any], size: Size, path: Path) -> Path:
    rows = [
        (model, route, epsilon, split, value)
        for (model, route), table in scores.items()
        for epsilon, line in zip(size.epsilons, table, strict=True)
        for split, value in enumerate(line)
    ]
    return write_csv(path, ("model", "route", "epsilon", "split", "log_likelihood_per_event"), rows)


def _map_findings(maps: dict[str, Any], log: EventLog) -> tuple[Finding, ...]:
    plain, noisy, *chains = maps.values()
    alike = [float(np.mean(plain == m)) for m in (noisy, chains[0])]
    changes = [float(np.mean(m[:, 1:] != m[:, :-1])) for m in chains]
    cells = f"{log.grid.shape[0]} × {log.grid.shape[1]} cells"
    return (
        Finding(
            "a map from Laplace noise shows the states that a map without a promise shows",
            alike[0] > 0.8,
            f"{alike[0]:.0%} of {cells} have the same state; tempered, sweep by sweep, {alike[1]:.0%}",
        ),
        Finding(
            "one tempered sample is less coherent than the states over many (Figure 4.7)",
            changes[3] > changes[2],
            f"months unlike the month before, if converged: {changes[3]:.1%} against {changes[2]:.1%}; "
            f"paid for sweep by sweep: {changes[1]:.1%} against {changes[0]:.1%}",
        ),
    )


def _score_findings(scores: dict[tuple[str, str], Any], size: Size, per_cell: float) -> tuple[Finding, ...]:
    mean = {key: table.mean(axis=1) for key, table in scores.items()}

    def line(model: str, route: str) -> str:
        return f"{route} " + " ".join(f"{v:.3f}" for v in mean[model, route])

    at = "at ε = " + ", ".join(f"{e:g}" for e in size.epsilons)
    one, many = mean[HIDDEN, "converged"], mean[HIDDEN, "laplace"]
    aware = scores[HIDDEN, "aware"]
    gain = (aware - scores[HIDDEN, "laplace"][:, : aware.shape[1]]).mean(axis=1)  # on the same splits
    enough = np.array(size.epsilons) >= 1
    return (
        Finding(
            "naive Bayes: Laplace noise beats tempered sampling at every ε",
            bool(np.all(mean[NAIVE, "laplace"] > mean[NAIVE, "tempered"])),
            f"{at}: {line(NAIVE, 'laplace')}; {line(NAIVE, 'tempered')}",
        ),
        Finding(
            "hidden Markov: Laplace noise beats tempered updates paid for one by one, from ε = 1 on",
            bool(np.all((many > mean[HIDDEN, "tempered"])[enough])),
            f"{at}: {line(HIDDEN, 'laplace')}; {line(HIDDEN, 'tempered')}",
        ),
        Finding(
            "hidden Markov: Laplace noise beats one tempered sample, taken to have converged, where ε is small "
            "(the thesis: where a cell holds much data, a median of 972 events in Iraq; level where it holds little, "
            "58 in Afghanistan)",
            bool(many[0] > one[0]),
            f"a median of {per_cell:.0f} events a cell; {at}: {line(HIDDEN, 'laplace')}; {line(HIDDEN, 'converged')}",
        ),
        Finding(
            "given 10 states, the private model predicts as well as the one without a promise at the largest ε",
            bool(mean[HIDDEN, "none"][-1] - many[-1] < 0.03),
            f"{line(HIDDEN, 'none')}; {line(HIDDEN, 'laplace')}",
        ),
        Finding(
            "drawing the true counts predicts better than to take the noisy ones at their word",
            bool(np.all(gain > 0)),
            f"{at}, on the same splits: " + " ".join(f"{g:+.3f}" for g in gain),
        ),
    )
