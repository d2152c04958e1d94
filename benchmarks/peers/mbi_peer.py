"""AIM and MST on the inference of mbi 2, about one record replaced. Runs in an environment of its own.

The question is ``{"table": an .npz file with codes (records, columns) and sizes, "mechanism": "aim" or "mst", "rho": ρ,
"seed": a seed, "megabytes": the largest model of AIM, "iterations": steps of each fit, "cliques": the margins to be
told of, "rows": how many records to draw, "out": a file}``. The file gets the records drawn and the shares of each
margin; the answer has the seconds it took and the margins that were measured. Both mechanisms are those of McKenna,
Miklau and Sheldon (2021) and McKenna, Mullins, Sheldon and Miklau (2022), their privacy counted for records replaced: a
margin then moves by √2, and a score by 2.
"""

import itertools
import json
import math
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

warnings.filterwarnings("ignore")

import jax  # noqa: E402 - its warnings are not for us

jax.config.update("jax_enable_x64", True)
# Most of the time goes into compiling anew for each model: what was compiled for another seed is kept.
jax.config.update("jax_compilation_cache_dir", f"{tempfile.gettempdir()}/compiled-for-mbi")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

import numpy as np  # noqa: E402
from mbi import Dataset, Domain, LinearMeasurement, estimation, junction_tree  # noqa: E402

Clique = tuple[str, ...]


class Learner:
    """One table, and what was measured of it."""

    def __init__(self, question: dict[str, Any]) -> None:
        with np.load(question["table"]) as file:
            codes, sizes = file["codes"], file["sizes"]
        self.rng = np.random.default_rng(question["seed"])
        self.names = tuple(f"c{k}" for k in range(len(sizes)))
        self.domain = Domain(self.names, tuple(int(s) for s in sizes))
        self.data = Dataset({name: codes[:, k] for k, name in enumerate(self.names)}, self.domain)
        self.n, self.rho = len(codes), float(question["rho"])
        self.iterations, self.megabytes = int(question["iterations"]), float(question["megabytes"])
        self.measured: list[Any] = []
        self.model: Any = None

    def counts(self, clique: Clique) -> Any:
        """Return the true counts of a margin."""
        return np.asarray(self.data.project(clique).datavector())

    def expected(self, clique: Clique) -> Any:
        """Return what the model expects of a margin."""
        return np.asarray(self.model.project(clique).datavector())

    def measure(self, clique: Clique, sigma: float) -> None:
        """Release a margin with noise."""
        counts = self.counts(clique)
        noisy = counts + sigma * self.rng.standard_normal(counts.size)
        self.measured.append(LinearMeasurement(noisy, clique, sigma))

    def fit(self) -> None:
        """Fit the model to all that was measured, from where it was."""
        fitter = estimation.MirrorDescent()
        options = {"known_total": self.n, "iters": self.iterations, "warm_start": self.model, "tol": 1e-6}
        self.model = fitter.estimate(self.domain, list(self.measured), **options)

    def choose(self, scores: Sequence[float], window: float, sensitivity: float) -> int:
        """Return a choice by the exponential mechanism, whose privacy loss lies in a window of this width."""
        weights = window / (2 * sensitivity) * np.asarray(scores)
        weights = np.exp(weights - weights.max())
        return int(self.rng.choice(weights.size, p=weights / weights.sum()))


def aim(learner: Learner) -> None:
    """Measure margins of two columns where the model is worst, as AIM does (workload: all pairs)."""
    pairs = list(itertools.combinations(learner.names, 2))
    candidates = {(name,): len(learner.names) - 1.0 for name in learner.names} | dict.fromkeys(pairs, 0.0)
    for pair in pairs:
        candidates[pair] = float(sum(len(set(pair) & set(other)) for other in pairs))
    rounds = 16 * len(learner.names)
    sigma, window = math.sqrt(rounds / (0.9 * learner.rho)), math.sqrt(8 * 0.1 * learner.rho / rounds)
    for name in learner.names:
        learner.measure((name,), sigma)
    spent, last = len(learner.names) / sigma**2, False
    learner.fit()
    bias = math.sqrt(2 / math.pi)
    while not last:
        if learner.rho - spent < 2 * (1 / sigma**2 + window**2 / 8):
            remaining, last = learner.rho - spent, True
            sigma, window = math.sqrt(1 / (0.9 * remaining)), math.sqrt(8 * 0.1 * remaining)
        spent += 1 / sigma**2 + window**2 / 8
        limit = learner.megabytes * spent / learner.rho
        known = [tuple(clique) for clique in learner.model.cliques]
        free = {sub for c in known for k in range(1, len(c) + 1) for sub in itertools.combinations(c, k)}
        small = [
            c
            for c in candidates
            if c in free or junction_tree.hypothetical_model_size(learner.domain, [*known, c]) <= limit
        ]
        scores = [
            candidates[c]
            * (np.abs(learner.counts(c) - learner.expected(c)).sum() - bias * sigma * learner.domain.size(c))
            for c in small
        ]
        clique = small[learner.choose(scores, window, 2 * max(candidates[c] for c in small))]
        before = learner.expected(clique)
        learner.measure(clique, sigma)
        learner.fit()
        if np.abs(learner.expected(clique) - before).sum() <= bias * sigma * before.size:
            sigma, window = sigma / 2, window * 2


def mst(learner: Learner) -> None:
    """Measure a tree of margins that is chosen once, as MST does; values that are rare are not merged."""
    third = learner.rho / 3
    names = learner.names
    sigma = math.sqrt(len(names) / third)
    for name in names:
        learner.measure((name,), sigma)
    learner.fit()
    pairs = list(itertools.combinations(names, 2))
    scores = {pair: float(np.abs(learner.counts(pair) - learner.expected(pair)).sum()) for pair in pairs}
    home, tree = {name: name for name in names}, []
    window = math.sqrt(8 * third / (len(names) - 1))
    for _ in names[1:]:
        apart = [pair for pair in pairs if home[pair[0]] != home[pair[1]]]
        first, second = apart[learner.choose([scores[pair] for pair in apart], window, 2.0)]
        tree.append((first, second))
        joined = home[second]
        home = {name: home[first] if where == joined else where for name, where in home.items()}
    for pair in tree:
        learner.measure(pair, math.sqrt(len(tree) / third))
    learner.fit()


MECHANISMS: dict[str, Callable[[Learner], None]] = {"aim": aim, "mst": mst}


def main() -> None:
    """Answer one question."""
    question = json.load(sys.stdin)
    learner, begun = Learner(question), time.perf_counter()
    MECHANISMS[question["mechanism"]](learner)
    seconds = time.perf_counter() - begun
    asked = [tuple(learner.names[k] for k in clique) for clique in question["cliques"]]
    shares = {f"margin {k}": learner.expected(clique) / learner.n for k, clique in enumerate(asked)}
    drawn = learner.model.synthetic_data(rows=int(question["rows"]))
    codes = np.stack([np.asarray(drawn.data[name]) for name in learner.names], axis=1)
    np.savez_compressed(question["out"], codes=codes, **shares)
    json.dump({"seconds": seconds, "measured": [list(item.clique) for item in learner.measured]}, sys.stdout)


if __name__ == "__main__":
    main()
