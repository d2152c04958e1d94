"""The hidden Markov case study with the thesis' own constants, on made-up logs of its size and on two bundled ones.

As printed: one chain of 200 sweeps with the transitions summed out, the first half thrown away; Laplace noise, ε shared
by the fields, the likelihood averaged over the kept draws; posterior sampling (OPS) with floors 1/(MK), M = 10 and 100,
its last draw; naive Bayes beside; ten states for prediction, two and three for the maps at ε = 5; a tenth of the cells
held out, ten times. OPS keeps its ε only if its chain has converged, which nobody can check; paid for update by update
it would cost 400 ε. Ours beside: the same noisy tables, the true counts behind them unknown ("aware").

The war logs are not ours to ship. The made-up logs have their numbers of events, a cell and in all
(papers/war_logs.py); the bundled ones have other numbers, which the note below the table says.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from papers.event_logs import HONG_KONG, PORTUGAL, EventLog
from papers.event_scores import Study, short_fit
from papers.event_scores import noisy_tables as noised
from papers.hmm_figures import draw_printed, draw_printed_maps
from papers.parts import run_parts
from papers.printed_chains import FLOORS, PrintedChains, naive_bayes_scores
from papers.registry import Finding, Outcome, Setting, experiment
from papers.war_logs import AFGHANISTAN, IRAQ
from sottovoce.inference.figures import write_csv
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["LOGS", "compute", "parts", "redraw", "run", "score_findings", "scores_of"]

LOGS: dict[str, EventLog] = {
    "Afghanistan's size": AFGHANISTAN,
    "Iraq's size": IRAQ,
    "Portugal's fires": PORTUGAL,
    "Hong Kong's collisions": HONG_KONG,
}
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
NAIVE, HIDDEN, MAPS = "naive Bayes", "hidden Markov", "maps"
HEADS = ("log", "model", "route", "epsilon", "split", "value", "states", "sweeps")
MEDIANS = {"Afghanistan's size": 58, "Iraq's size": 972}
"""Events of a usual cell in the thesis' own logs."""


def parts(quick: bool, seed: int) -> dict[str, dict[str, Any]]:
    """Return the work, part by part."""
    size = (
        {"sweeps": 12, "epsilons": (0.3, 10.0), "splits": 1}
        if quick
        else {"sweeps": 200, "epsilons": EPSILONS, "splits": 10}
    )
    splits: Any = size.pop("splits")
    logs = list(LOGS)[:2] if quick else list(LOGS)
    found: dict[str, dict[str, Any]] = {}
    for split in range(splits):
        for name in reversed(logs):
            found[f"{name}, split {split}"] = {"log": name, "split": split, "seed": seed, "quick": quick, **size}
    for name in logs[:2]:
        found[f"{name}, maps"] = {"log": name, "split": -1, "seed": seed, "quick": quick, **size}
        for epsilon in () if quick else EPSILONS:
            item = {"log": name, "split": 0, "seed": seed, "quick": quick, "sweeps": 80, "aware": epsilon}
            found[f"{name}, aware, {epsilon}"] = item
    return found


def compute(item: Mapping[str, Any]) -> list[list[Any]]:
    """Return the table's rows of one part."""
    return [[*row, item["sweeps"]] for row in _compute(item)]


def _compute(item: Mapping[str, Any]) -> list[list[Any]]:
    log, seed = LOGS[item["log"]], 100 * item["seed"] + max(item["split"], 0)
    if item["split"] < 0:
        return [[item["log"], *row] for row in _maps(item["log"], log, item["sweeps"], seed)]
    held = Study(log, 1, 1, 1, seed).held
    if "aware" in item:
        epsilon, rng = item["aware"], seeded_rng(3000 + seed)
        true = [np.where(held[..., None], 0, table) for table in log.counts()]
        fit = short_fit(
            log.model(10), noised(log, true, "laplace", epsilon, rng), sweeps=item["sweeps"], missing=held, rng=rng
        )
        value = fit.held_out_log_likelihood(log.counts(), held) / log.counts()[0][held].sum()
        return [[item["log"], HIDDEN, "aware", epsilon, item["split"], float(value), ""]]
    routes = (("none", 0.0), *((name, e) for name in ("laplace", *FLOORS) for e in item["epsilons"]))
    chains = PrintedChains(log, 3 if item["quick"] else 10, routes, held)
    hidden = chains.scores(chains.run(item["sweeps"], 4000 + seed))
    naive = naive_bayes_scores(log, routes, held, 5000 + seed)
    return [
        [item["log"], model, name, epsilon, item["split"], value, ""]
        for model, values in ((HIDDEN, hidden), (NAIVE, naive))
        for (name, epsilon), value in zip(routes, values, strict=True)
    ]


def _maps(name: str, log: EventLog, sweeps: int, seed: int) -> list[list[Any]]:
    """Return the state maps at ε = 5, and how many of ten states are in use with and without noise."""
    nobody = np.zeros(log.grid.shape, dtype=bool)
    routes = (("none", 0.0), ("laplace", 5.0), ("M = 100", 5.0))
    few = PrintedChains(log, 3 if name == "Afghanistan's size" else 2, routes, nobody).run(sweeps, 6000 + seed)
    rows: list[list[Any]] = [[MAPS, "truth", 0.0, 0, "", _digits(log.truth)]]  # type: ignore[attr-defined]
    rows += [
        [MAPS, route, e, 0, "", _digits(p.most_frequent_states)] for (route, e), p in zip(routes, few, strict=True)
    ]
    rows.append([MAPS, "M = 100, last draw", 5.0, 0, "", _digits(few[2].states[-1])])
    many = PrintedChains(log, 10, routes[:2], nobody).run(sweeps, 7000 + seed)
    for (route, epsilon), posterior in zip(routes, many, strict=False):
        used = int(np.sum(posterior.state_probabilities.mean(axis=(0, 1)) >= 0.05))
        rows.append(["states in use", route, epsilon, 0, used, ""])
    return rows


def _digits(states: Any) -> str:
    return "/".join("".join(map(str, row)) for row in states.tolist())


def redraw(table: Path, setting: Setting) -> Outcome:
    """Draw the figures and find the findings of a table written before."""
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    scores = scores_of(rows)
    maps = {
        name: {r["route"]: np.array([[int(d) for d in line] for line in r["states"].split("/")])
               for r in rows if r["model"] == MAPS and r["log"] == name}
        for name in dict.fromkeys(r["log"] for r in rows if r["model"] == MAPS)
    }  # fmt: skip
    used = {(r["log"], r["route"]): int(float(r["value"])) for r in rows if r["model"] == "states in use"}
    files = [
        *setting.save(draw_printed(scores), "hmm-printed"),
        *setting.save(draw_printed_maps(maps), "hmm-printed-maps"),
    ]
    kept = setting.output / "hmm-printed.csv"
    if table.resolve() != kept.resolve():
        kept.write_bytes(table.read_bytes())
    return Outcome((*files, kept), (*score_findings(scores), *_map_findings(maps, used)), _sizes(scores, _sweeps(rows)))


@experiment(
    "hmm-printed",
    "The hidden Markov case study as printed, on logs of the thesis' size",
    source="Geumlek 2020, Figures 4.3-4.7",
    redraw=redraw,
)
def run(setting: Setting) -> Outcome:
    """Run every part and draw."""
    found = run_parts(setting, compute, parts(setting.quick, setting.seed))
    rows = [row for answer in found.values() for row in answer]
    return redraw(write_csv(setting.output / "hmm-printed.csv", HEADS, rows), setting)


def scores_of(rows: Sequence[Mapping[str, str]]) -> dict[tuple[str, str, str], dict[float, list[float]]]:
    """Return the scores by log, model and route, then by ε, a list over splits."""
    found: dict[tuple[str, str, str], dict[float, list[float]]] = {}
    for row in rows:
        if row["model"] in (HIDDEN, NAIVE):
            by_epsilon = found.setdefault((row["log"], row["model"], row["route"]), {})
            by_epsilon.setdefault(float(row["epsilon"]), []).append(float(row["value"]))
    return found


def _line(scores: Any, log: str, model: str, route: str) -> tuple[Any, str]:
    mean = np.array([np.mean(v) for _, v in sorted(scores[log, model, route].items())])
    return mean, f"{route} " + " ".join(f"{v:.3f}" for v in mean)


def score_findings(scores: Any) -> list[Finding]:
    """Return what the scores say of the claims about them."""
    found = []
    for log in dict.fromkeys(key[0] for key in scores):
        at = "at ε = " + ", ".join(f"{e:g}" for e in sorted(scores[log, NAIVE, "laplace"]))
        (noise, said), *others = (_line(scores, log, NAIVE, route) for route in ("laplace", *FLOORS))
        found.append(
            Finding(
                f"{log}, naive Bayes: the Laplace mechanism is superior to OPS (thesis: Afghanistan)",
                bool(all(np.all(noise >= other) for other, _ in others)),
                f"{at}: {said}; " + "; ".join(words for _, words in others),
            )
        )
        (noise, said), *others = (_line(scores, log, HIDDEN, route) for route in ("laplace", *FLOORS))
        evidence = f"{at}: {said}; " + "; ".join(words for _, words in others)
        best = np.max([other for other, _ in others], axis=0)
        if MEDIANS.get(log, 0) > 500:
            claim = f"{log}, hidden Markov: Laplace noise outperforms OPS, above all where ε is small (thesis: Iraq)"
            found.append(
                Finding(claim, bool(np.all(noise > best) and noise[0] - best[0] > noise[-1] - best[-1]), evidence)
            )
        elif log in MEDIANS:
            claim = f"{log}, hidden Markov: OPS is competitive with the Laplace mechanism (thesis: Afghanistan)"
            found.append(Finding(claim, bool(np.any(best > noise)), evidence))
        else:
            claim = f"{log}, hidden Markov: OPS is competitive with the Laplace mechanism, as where a cell holds little"
            found.append(Finding(claim, bool(np.any(best > noise)), evidence))
        if (log, HIDDEN, "aware") in scores:
            aware = {e: v[0] for e, v in scores[log, HIDDEN, "aware"].items()}
            gain = [aware[e] - scores[log, HIDDEN, "laplace"][e][0] for e in sorted(aware)]
            found.append(
                Finding(
                    f"{log}: ours, with the true counts unknown, predicts better than noisy counts at their word",
                    bool(np.all(np.array(gain) > 0)),
                    "on the first split: " + " ".join(f"{g:+.3f}" for g in gain),
                )
            )
    return found


def _map_findings(maps: Any, used: Mapping[tuple[str, str], int]) -> list[Finding]:
    found = []
    for log, shown in maps.items():
        alike = {route: _alike(shown["truth"], states) for route, states in shown.items()}
        found.append(
            Finding(
                f"{log}: the map at ε = 5 with Laplace noise shows the regimes (thesis: Iraq, two states)",
                alike["laplace"] > 0.9,
                f"{alike['laplace']:.0%} of cells, {alike['none']:.0%} without noise, {alike['M = 100']:.0%} by OPS",
            )
        )
        turns = {r: float(np.mean(shown[r][:, 1:] != shown[r][:, :-1])) for r in ("M = 100", "M = 100, last draw")}
        found.append(
            Finding(
                f"{log}: OPS, one draw is less coherent than the last hundred (Figure 4.7, Afghanistan)",
                turns["M = 100, last draw"] > turns["M = 100"],
                f"months unlike the month before: {turns['M = 100, last draw']:.1%} against {turns['M = 100']:.1%}",
            )
        )
        found.append(
            Finding(
                f"{log}: given 10 states, Laplace noise at ε = 5 leaves two or three in use, and without noise all are",
                used[log, "laplace"] <= 3 < used[log, "none"],
                f"{used[log, 'laplace']} with noise, {used[log, 'none']} without",
            )
        )
    return found


def _alike(truth: Any, states: Any) -> float:
    """Return the share of cells with the right state, whatever the states are called."""
    from scipy import optimize

    table = np.array([[np.sum((truth == a) & (states == b)) for b in range(10)] for a in range(10)])
    rows, columns = optimize.linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / truth.size)


def _sweeps(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the sweeps of the chains whose held-out likelihood the table has, by log."""
    return {row["log"]: row["sweeps"] for row in rows if row["model"] == HIDDEN and row["route"] == "none"}


def _sizes(scores: Any, sweeps: Mapping[str, str]) -> str:
    told = []
    for log in dict.fromkeys(key[0] for key in scores):
        sizes = LOGS[log].counts()[0].sum(axis=-1)
        splits = len(next(iter(scores[log, HIDDEN, "none"].values())))
        told.append(
            f"{log}: {sizes.sum():,} events, a median of {np.median(sizes):.0f} a cell, splits scored: {splits}, "
            f"sweeps: {sweeps[log]}"
        )
    return (
        "The thesis has a median of 972 events a cell in Iraq and 58 in Afghanistan, ten splits and 200 sweeps. Here "
        + "; ".join(told)
        + "."
        + _left_out(scores)
    )


def _left_out(scores: Any) -> str:
    missing = [log for log in LOGS if (log, HIDDEN, "none") not in scores]
    return f" Held-out likelihoods of this table leave out {', '.join(missing)}." if missing else ""
