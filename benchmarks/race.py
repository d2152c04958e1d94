"""The race: private regressions on ten sets, by error and log loss, everyone's settings chosen leaving one set out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from scipy import stats

from benchmarks.peers.environment import PeerUnavailable
from benchmarks.racing import sets
from benchmarks.racing.apart import PEER, join, times
from benchmarks.racing.family import FAMILY, pick
from benchmarks.racing.measure import DELTA, Found, jobs, line_jobs, measure
from benchmarks.racing.rivals import LINES
from benchmarks.timing import show
from sottovoce.privacy.numbers import Floats

EPSILONS = (0.1, 0.3, 1.0, 3.0)
SURE = 0.01
"""A difference is told of where a paired test of the cuts gives it a smaller p than this."""


def rivals_of(found: Found, name: str, epsilon: float) -> list[str]:
    """Return the rivals that were fitted to a set."""
    methods = [method.partition("|")[0] for method in found["classes", name, epsilon] if "|" in method]
    return [rival for rival in dict.fromkeys(methods) if rival != "ours"]


def worths(found: Found, names: Sequence[str], epsilons: Sequence[float]) -> dict[str, dict[str, float]]:
    """Return of every rule of ours, on every set, its error and log loss together, averaged over cuts and ε."""
    return {
        rule: {
            name: float(np.mean([np.mean(found["classes", name, e][f"ours|{rule}"], axis=0).sum() for e in epsilons]))
            for name in names
        }
        for rule in FAMILY
    }


def settle(found: Found, names: Sequence[str], epsilons: Sequence[float]) -> dict[str, str]:
    """Choose our rule for each set by the others, write its scores down as ours, and return the rules.

    One rule serves error and log loss at every ε. Sets that are held back, and none, get what is best on all.
    """
    scored = worths(found, names, epsilons)
    best = pick(scored, names)
    rules = {name: pick(scored, [other for other in names if other != name] or [name]) for name in names}
    rules["digits"] = rules.get("even digits", best)
    for (kind, name, _), methods in found.items():
        if kind in ("classes", "many"):
            methods["ours"] = methods[f"ours|{rules.get(name, best)}"]
    return rules | {"": best}


def chosen(
    found: Found, kind: str, names: Sequence[str], epsilon: float, rival: str, by: int, tuned: Sequence[str] = ()
) -> dict[str, Floats]:
    """Return for each set the scores of the setting that was best, by error (0) or log loss (1), on other sets.

    These are the other ones of `tuned`, or of the names where that is empty.
    """
    settings = [method for method in found[kind, names[0], epsilon] if method.startswith(f"{rival}|")]

    def scores(name: str, setting: str) -> Floats:
        return np.array(found[kind, name, epsilon][setting])[:, by]

    picked = {}
    for name in names:
        others = [other for other in tuned or names if other != name] or [name]
        worth = {setting: float(np.mean([scores(other, setting).mean() for other in others])) for setting in settings}
        picked[name] = scores(name, min(settings, key=worth.__getitem__))
    return picked


def scores_of(
    found: Found, kind: str, names: Sequence[str], epsilon: float, method: str, by: int, tuned: Sequence[str] = ()
) -> dict[str, Floats]:
    """Return for each set the scores of a method, of a rival those of its chosen settings."""
    if method in found[kind, names[0], epsilon]:
        return {name: np.array(found[kind, name, epsilon][method])[:, by] for name in names}
    return chosen(found, kind, names, epsilon, method, by, tuned)


def worse_by(ours: Floats, theirs: Floats) -> tuple[float, float]:
    """Return by how much ours is worse, and p of a paired t-test over the common cuts; 1 where it is not worse."""
    both = min(len(ours), len(theirs))
    gap = ours[:both] - theirs[:both]
    if gap.mean() <= 0 or not np.any(gap != gap[0]):
        return float(gap.mean()), 1.0
    return float(gap.mean()), float(stats.ttest_1samp(gap, 0.0).pvalue)


def corrected(p: Sequence[float]) -> list[float]:
    """Return p-values after Holm's correction for as many comparisons as there are.

    >>> [round(one, 3) for one in corrected([0.01, 0.5, 0.02])]
    [0.03, 0.5, 0.04]
    """
    order, found, most = np.argsort(p, kind="stable"), [0.0] * len(p), 0.0
    for place, k in enumerate(order.tolist()):
        most = max(most, min((len(p) - place) * p[k], 1.0))
        found[k] = most
    return found


def loss_table(found: Found, names: Sequence[str], epsilons: Sequence[float]) -> None:
    """Show every comparison of one set, ε and figure with one rival, or the base rate, in which ours is worse."""
    rows, ps = [], []
    for group in (names, sets.HELD):
        for epsilon, by in product(epsilons, (0, 1)):
            ours = scores_of(found, "classes", group, epsilon, "ours", by)
            for method in [*rivals_of(found, group[0], epsilon), "majority"]:
                theirs = scores_of(found, "classes", group, epsilon, method, by, names)
                for name in group:
                    gap, p = worse_by(ours[name], theirs[name])
                    where = f"{name}, ε = {epsilon:g}, {('error', 'log loss')[by]}, {method}"
                    rows.append([where, f"{gap:.4f}", f"{p:.2g}"])
                    ps.append(p)
    told = [[*row, f"{after:.2g}"] for row, p, after in zip(rows, ps, corrected(ps), strict=True) if p < SURE]
    note = (
        f"All of {len(ps)} comparisons, on the ten sets and those on which nothing was tuned; paired t-tests over the "
        f"cuts, p < {SURE:g} shown, beside p corrected for {len(ps)} comparisons (Holm). In {sum(p < 1 for p in ps)} "
        f"of them the mean of ours is worse by anything at all, and the least p is {min(ps):.2g}."
    )
    show("Where ours is significantly worse", ["", "by", "p", "p, corrected"], told or [["nowhere", "", "", ""]], note)


def mean_table(
    found: Found, names: Sequence[str], epsilons: Sequence[float], *, title: str, note: str, tuned: Sequence[str]
) -> None:
    """Show the mean over the sets of every method at every ε, by error and by log loss."""
    rows = []
    for method in ["ours", *rivals_of(found, names[0], epsilons[0]), "majority", "not private"]:
        row = [method]
        for epsilon in epsilons:
            both = [scores_of(found, "classes", names, epsilon, method, by, tuned) for by in (0, 1)]
            row.append(" / ".join(f"{np.mean([one.mean() for one in scores.values()]):.4f}" for scores in both))
        rows.append(row)
    show(f"{title}: error / log loss", ["", *(f"ε = {e:g}" for e in epsilons)], rows, note)


def set_table(found: Found, names: Sequence[str], epsilons: Sequence[float]) -> None:
    """Show ours beside the best rival on each set, by error and by log loss."""
    rows = []
    for name in names:
        row = [name]
        for epsilon in epsilons:
            known, pairs = rivals_of(found, name, epsilon), []
            for by in (0, 1):
                ours = np.mean(np.array(found["classes", name, epsilon]["ours"])[:, by])
                rivals = [np.mean(chosen(found, "classes", names, epsilon, rival, by)[name]) for rival in known]
                pairs.append(f"{ours:.3f} ({min(rivals):.3f})")
            row.append(" / ".join(pairs))
        rows.append(row)
    title = "Each set: error / log loss, in brackets those of the rival that is best on that very set"
    show(title, ["", *(f"ε = {epsilon:g}" for epsilon in epsilons)], rows)


def line_table(found: Found, epsilons: Sequence[float]) -> None:
    """Show the linear regressions; with two sets the settings are those best on the other."""
    rows = []
    for name in sets.LINEAR:
        for method in ["ours", *LINES, "mean", "not private"]:
            scored = [scores_of(found, "line", sets.LINEAR, epsilon, method, 0)[name] for epsilon in epsilons]
            rows.append([f"{name}, {method}", *(f"{scores.mean():.3f}" for scores in scored)])
    show("Root mean squared error of linear regressions", ["", *(f"ε = {e:g}" for e in epsilons)], rows)


def many_table(found: Found, epsilons: Sequence[float]) -> None:
    """Show ten classes; the descent gets the setting that is best on this very set."""
    rows = []
    for method in ("ours", "private descent", "majority", "not private"):
        row = [method]
        for epsilon in epsilons:
            error, loss = (scores_of(found, "many", ["digits"], epsilon, method, by)["digits"].mean() for by in (0, 1))
            row.append(f"{error:.3f} / {loss:.3f}")
        rows.append(row)
    show("Ten classes (digits): error / log loss", ["", *(f"ε = {e:g}" for e in epsilons)], rows)


def time_table(name: str, epsilon: float, repeats: int) -> None:
    """Show how long a fit takes beside diffprivlib's, in one run; or say why not."""
    note = "Processor seconds of the fastest fit on one thread."
    try:
        (error, ours), (other, theirs) = times(name, epsilon, repeats)
    except PeerUnavailable as reason:
        show("Time of a fit", ["", "error", "seconds"], [], f"Without diffprivlib: {reason}.")
        return
    rows = [["ours", f"{error:.3f}", f"{ours:.2f}"], [PEER, f"{other:.3f}", f"{theirs:.2f}"]]
    rows.append(["ratio", f"{error / other:.2f}", f"{ours / theirs:.2f}"])
    show(f"Time of a fit ({name}, ε = {epsilon:g}, {repeats} fits)", ["", "error", "seconds"], rows, note)


def tables(found: Found, names: Sequence[str], epsilons: Sequence[float], cuts: int) -> None:
    """Show what was found."""
    note = (
        f"Replace-one, (ε, {DELTA:g}); {cuts} cuts into two thirds and one third; diffprivlib keeps the stricter pure "
        f"ε. Rivals' settings are those best, by the very figure shown at that ε, on the other sets; ours is one rule "
        f"of {len(FAMILY)} for all ε and both figures, best by their sum on the other sets."
    )
    held = f"Mean over three sets on which nothing was tuned ({', '.join(sets.HELD)})"
    mean_table(found, names, epsilons, title=f"Mean over {len(names)} sets", note=note, tuned=names)
    mean_table(found, sets.HELD, epsilons, title=held, note="", tuned=names)
    set_table(found, names, epsilons)
    loss_table(found, names, epsilons)
    many_table(found, epsilons)
    line_table(found, epsilons)


def main(quick: bool = False) -> None:
    """Run the race and show its tables."""
    names = ("pima", "breast cancer", "housing") if quick else sets.SETS
    epsilons, cuts = ((1.0,), 2) if quick else (EPSILONS, 20)
    work = [
        *jobs([*names, *sets.HELD], epsilons, cuts),
        *jobs(["digits"], epsilons, cuts, "many"),
        *line_jobs(epsilons, cuts),
    ]
    found = measure(work, 1 if quick else None)
    try:
        join(found, [*names, *sets.HELD], epsilons, cuts)
    except PeerUnavailable as reason:
        print(f"without {PEER}: {reason}")
    tables(found, names, epsilons, cuts)
    time_table("pima" if quick else "adult", 3.0, 2 if quick else 5)


if __name__ == "__main__":
    main()
