"""How many posterior samples until two data sets can be told apart: bounds beside adversaries who try."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.theory.metric.distinguishability import (
    answers_withstood,
    guess_error,
    histogram_answers,
    theorem_three_answers,
)
from sottovoce.theory.metric.posterior_pairs import BinomialProportion

__all__ = ["Duel", "told_apart_after"]

ERROR = 0.05
CUT = 0.1
"""The proportion is known to lie in [CUT, 1-CUT], so that one Lipschitz constant holds for all of it."""
RECORDS, HITS = 100, 30
DISTANCES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Duel:
    """Two data sets of one proportion, `hits` and `hits + distance` ones among n, and an adversary who must name one.

    Each answer is a sample from the posterior under a Beta(6, 12) prior cut off to [CUT, 1-CUT]. The cut takes less
    than 1e-7 of these posteriors away, so the exact count of the whole family is theirs.
    """

    distance: int
    family: BinomialProportion = BinomialProportion(6.0, 12.0)  # noqa: RUF009 - frozen

    @property
    def data(self) -> tuple[list[int], list[int]]:
        """The two data sets."""
        return [1] * (HITS + self.distance) + [0] * (RECORDS - HITS - self.distance), [1] * HITS + [0] * (
            RECORDS - HITS
        )

    def laws(self) -> list[Any]:
        """Return the two posteriors before the cut; the cut-off ones are their middle part."""
        return [stats.beta(6 + sum(x), 12 + RECORDS - sum(x)) for x in self.data]

    def draw(self, which: int, size: tuple[int, int], rng: np.random.Generator) -> Floats:
        """Return answers about one of the data sets; the few outside the cuts are drawn again."""
        ones = sum(self.data[which])
        answers = rng.beta(6 + ones, 12 + RECORDS - ones, size)
        while (outside := (answers < CUT) | (answers > 1 - CUT)).any():
            answers[outside] = rng.beta(6 + ones, 12 + RECORDS - ones, int(outside.sum()))
        return answers

    def log_ratios(self, answers: Floats) -> Floats:
        """Return the log-ratio of the two posteriors at each answer."""
        first, second = self.laws()
        masses = [np.log(np.diff(law.cdf([CUT, 1 - CUT]))[0]) for law in (first, second)]
        return np.asarray(first.logpdf(answers) - second.logpdf(answers) - masses[0] + masses[1])

    def error(self, count: int, repeats: int, rng: np.random.Generator, *, cells: bool = False) -> float:
        """Return how often the adversary is wrong with `count` answers, the data sets equally likely.

        The best test adds the log-ratios up. The histogram adversary (`cells`) counts the answers on either side of
        the point where the posteriors cross, and names the nearer law.
        """
        wrong = 0.0
        middle = self._middle() if cells else 0.0
        for which, sign in ((0, 1.0), (1, -1.0)):
            ratios = self.log_ratios(self.draw(which, (repeats, count), rng))
            score = (ratios > 0).mean(axis=1) - middle if cells else ratios.sum(axis=1)
            wrong += float(np.mean(sign * score < 0) + np.mean(score == 0) / 2) / 2
        return wrong

    def _middle(self) -> float:
        """Return the share of answers on the first law's side, halfway between the two laws' own shares."""
        grid = np.linspace(CUT, 1 - CUT, 20_001)
        ahead = self.log_ratios(grid) > 0
        shares = [law.pdf(grid)[ahead].sum() / law.pdf(grid).sum() for law in self.laws()]
        return float(np.mean(shares))


def told_apart_after(duel: Duel, repeats: int, rng: np.random.Generator, *, cells: bool = False) -> int:
    """Return the number of answers with which the adversary's error first falls to `ERROR`, by doubling and halving."""
    low, high = 0, 1
    while duel.error(high, repeats, rng, cells=cells) > ERROR:
        low, high = high, 2 * high
    while high - low > max(1, high // 25):
        middle = (low + high) // 2
        low, high = (low, middle) if duel.error(middle, repeats, rng, cells=cells) <= ERROR else (middle, high)
    return high


@experiment("distinguishability", "How many answers until two data sets can be told apart", source="ours")
def run(setting: Setting) -> Outcome:
    """Measure the adversaries at five distances and draw them beside the bounds."""
    repeats, distances = (400, DISTANCES[3:]) if setting.quick else (4000, DISTANCES)
    rng, rows = seeded_rng(setting.seed), []
    for index, distance in enumerate(distances):
        duel = Duel(distance)
        x, y = duel.data
        privacy = duel.family.bounded(CUT)
        rows.append({
            "distance": distance,
            "theorem_3": theorem_three_answers(privacy, x, y, ERROR),
            "any_adversary_by_metric": answers_withstood(privacy.profile(x, y), ERROR),
            "any_adversary_exact": answers_withstood(duel.family.profile(x, y), ERROR),
            "best_test_measured": told_apart_after(duel, repeats, rng),
            "histogram_measured": told_apart_after(duel, repeats, rng, cells=True),
            "histogram_enough": histogram_answers(duel.family.total_variation(x, y), ERROR),
        })  # fmt: skip
        setting.advance((index + 1) / (len(distances) + 1))
    guesses = _guesses(Duel(4), (1, 4, 16) if setting.quick else (1, 2, 4, 8, 16, 32), repeats, rng)
    table = write_csv(setting.output / "distinguishability.csv", tuple(rows[0]), [tuple(r.values()) for r in rows])
    files = setting.save(_draw(rows, guesses), "distinguishability")
    setting.advance(1.0)
    return Outcome((*files, table), _findings(rows, guesses))


def _guesses(duel: Duel, counts: tuple[int, ...], repeats: int, rng: np.random.Generator) -> dict[str, list[float]]:
    """Return Le Cam's bound, and how far two adversaries guess on average, the best one with its standard error."""
    x, y = duel.data
    profile = duel.family.profile(x, y)
    out: dict[str, list[float]] = {"answers": [], "bound": [], "best": [], "noise": [], "moments": []}
    for count in counts:
        out["answers"].append(count)
        out["bound"].append(guess_error(duel.distance, float((count * profile).delta(0.0))))
        wrong = duel.error(count, repeats, rng)
        out["best"].append(duel.distance * wrong)
        out["noise"].append(duel.distance * math.sqrt(wrong * (1 - wrong) / (2 * repeats)))
        off = []
        for which, total in ((0, sum(x)), (1, sum(y))):
            means = duel.draw(which, (repeats, count), rng).mean(axis=1)
            ones = np.rint(np.clip((18 + RECORDS) * means - 6, 0, RECORDS))  # the posterior mean, solved for the data
            off.append(np.abs(ones - total).mean())
        out["moments"].append(float(np.mean(off)))
    return out


def _findings(rows: list[dict[str, Any]], guesses: dict[str, list[float]]) -> tuple[Finding, ...]:
    slack = 1.08  # sampling error of the measured counts
    exact = [row["best_test_measured"] * slack >= row["any_adversary_exact"] for row in rows]
    close = [row["best_test_measured"] / (row["any_adversary_exact"] + 1) for row in rows]
    order = [row["theorem_3"] <= row["any_adversary_by_metric"] + 1 for row in rows]
    enough = [row["histogram_measured"] <= row["histogram_enough"] for row in rows]
    best, bound, noise = (np.array(guesses[name]) for name in ("best", "bound", "noise"))
    return (
        Finding(
            "no adversary tells the data sets apart before the answers withstood are used up",
            all(exact),
            f"the best test needs {min(close):.2f} to {max(close):.2f} times one more than the exact count",
        ),
        Finding(
            "from 2Lρ alone follow at least as many answers as Theorem 3(i) asks for, at every distance",
            all(order),
            "; ".join(
                f"ρ={r['distance']}: {r['theorem_3']:.2f} and {r['any_adversary_by_metric'] + 1:.0f}" for r in rows
            ),
        ),
        Finding(
            "a histogram of two cells needs more answers than the best test, and no more than Lemma 2 grants it",
            all(enough) and all(r["histogram_measured"] >= r["best_test_measured"] for r in rows),
            "; ".join(f"ρ={r['distance']}: {r['histogram_measured']} of {r['histogram_enough']:.0f}" for r in rows),
        ),
        Finding(
            "no guess of the data comes nearer than Le Cam's bound, and the best one meets it",
            bool(np.all(np.abs(best - bound) <= 4 * noise)),
            f"after {guesses['answers'][-2]} answers: at least {bound[-2]:.2f} records off, "
            f"{best[-2]:.2f} ± {noise[-2]:.2f} measured",
        ),
    )


def _draw(rows: list[dict[str, Any]], guesses: dict[str, list[float]]) -> Any:
    drawing, (left, right) = figure(2, width=4.9, height=3.8)
    distance = [row["distance"] for row in rows]
    looks = {
        "histogram_enough": ("enough for a histogram (Lemma 2)", "--", COLOURS[1]),
        "histogram_measured": ("histogram adversary, measured", "s", COLOURS[1]),
        "best_test_measured": ("best adversary, measured", "o", COLOURS[0]),
        "any_adversary_exact": ("at least, for any adversary: exact", "-", COLOURS[0]),
        "any_adversary_by_metric": ("at least, from 2Lρ alone", "-", COLOURS[2]),
        "theorem_3": ("at least, by Theorem 3(i)", ":", COLOURS[5]),
    }
    for name, (label, style, colour) in looks.items():
        more = 1 if name.startswith("any_adversary") else 0  # the first number of answers that is not withstood
        heights = [max(row[name] + more, 1) for row in rows]
        left.plot(distance, heights, style, color=colour, label=label, markersize=5)
    left.set(xscale="log", yscale="log", xlabel="records replaced, ρ(x, y)", ylabel="answers needed", ylim=(0.8, 2e4))
    left.set_xticks(distance, [str(d) for d in distance])
    left.minorticks_off()
    left.set_title(f"Told apart with error {ERROR:g}", loc="left", fontweight="bold", fontsize=11)
    left.legend(loc="upper right", fontsize=8, frameon=False)
    right.plot(guesses["answers"], guesses["moments"], "^", color=COLOURS[1], label="guess by the mean answer")
    right.plot(guesses["answers"], guesses["best"], "o", color=COLOURS[0], label="names the likelier of the two")
    right.plot(guesses["answers"], guesses["bound"], "-", color=COLOURS[0], label="Le Cam's lower bound")
    right.set(xscale="log", xlabel="answers", ylabel="records wrong, on average", ylim=(0, None))
    right.set_xticks(guesses["answers"], [str(a) for a in guesses["answers"]])
    right.minorticks_off()
    right.set_title("How near a guess of the data comes", loc="left", fontweight="bold", fontsize=11)
    right.legend(loc="upper right", fontsize=8, frameon=False)
    return drawing
