"""The race: private regressions on ten sets, by error and log loss, everyone's settings chosen leaving one set out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from benchmarks.peers.environment import PeerUnavailable, pins_of
from benchmarks.racing import sets
from benchmarks.racing.apart import PEER, join, times
from benchmarks.racing.family import FAMILY, name_of, pick
from benchmarks.racing.measure import DELTA, Found, jobs, line_jobs, measure
from benchmarks.racing.rivals import LINES
from benchmarks.timing import show
from sottovoce.privacy.numbers import Floats
from sottovoce.regression.rules import CLASSES

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


def rule_table(rules: dict[str, str]) -> None:
    """Show which rule was chosen without which set."""
    rows = [[name or "none (the held sets)", rule] for name, rule in rules.items()]
    used = name_of(CLASSES)
    note = f"The rule that the library uses: {used}. " + (
        "It is the one chosen on all sets." if used == rules[""] else "Here another is best on all sets."
    )
    show(f"Our rule, one of {len(FAMILY)}, chosen leaving one set out", ["left out", "rule"], rows, note)


def held_table(found: Found, tuned: Sequence[str], epsilons: Sequence[float], by: int) -> None:
    """Show the sets on which nothing was tuned, the rivals with the settings that were best on the others."""
    rows, losses = [], []
    rivals = rivals_of(found, sets.HELD[0], epsilons[0])
    for method in ["ours", *rivals, "majority", "not private"]:
        row = [method]
        for epsilon in epsilons:
            setting = method
            if method in rivals:
                settings = [one for one in found["classes", tuned[0], epsilon] if one.startswith(f"{method}|")]

                def worth(one: str, epsilon: float = epsilon) -> float:
                    return float(np.mean([np.mean(found["classes", n, epsilon][one], axis=0)[by] for n in tuned]))

                setting = min(settings, key=worth)
            theirs = scores_of(found, "classes", sets.HELD, epsilon, setting, by)
            row.append(f"{np.mean([scores.mean() for scores in theirs.values()]):.4f}")
            if method not in ("ours", "not private"):
                ours = scores_of(found, "classes", sets.HELD, epsilon, "ours", by)
                losses += losses_to(ours, theirs, method, epsilon)
        rows.append(row)
    title = f"Mean {('error', 'log loss')[by]} over three sets on which nothing was tuned ({', '.join(sets.HELD)})"
    lost = f"Ours is significantly worse (p < {SURE:g}) on: {', '.join(losses) or 'no set'}."
    show(title, ["", *(f"ε = {epsilon:g}" for epsilon in epsilons)], rows, lost)


def chosen(found: Found, kind: str, names: Sequence[str], epsilon: float, rival: str, by: int) -> dict[str, Floats]:
    """Return for each set the scores of the setting that was best, by error (0) or log loss (1), on the other sets."""
    settings = [method for method in found[kind, names[0], epsilon] if method.startswith(f"{rival}|")]
    scores = {name: {s: np.array(found[kind, name, epsilon][s])[:, by] for s in settings} for name in names}
    picked = {}
    for name in names:
        others = [other for other in names if other != name] or [name]

        def worth(setting: str, others: list[str] = others) -> float:
            return float(np.mean([scores[other][setting].mean() for other in others]))

        picked[name] = scores[name][min(settings, key=worth)]
    return picked


def scores_of(found: Found, kind: str, names: Sequence[str], epsilon: float, method: str, by: int) -> dict[str, Floats]:
    """Return for each set the scores of a method, of a rival those of its chosen settings."""
    if method in found[kind, names[0], epsilon]:
        return {name: np.array(found[kind, name, epsilon][method])[:, by] for name in names}
    return chosen(found, kind, names, epsilon, method, by)


def worse_on(ours: dict[str, Floats], theirs: dict[str, Floats]) -> dict[str, tuple[float, float]]:
    """Return where ours is significantly worse, by how much, and p of a paired t-test over the common cuts."""
    found = {}
    for name, scores in ours.items():
        both = min(len(scores), len(theirs[name]))
        gap = scores[:both] - theirs[name][:both]
        if gap.mean() > 0 and np.any(gap != gap[0]) and (p := float(stats.ttest_1samp(gap, 0.0).pvalue)) < SURE:
            found[name] = float(gap.mean()), p
    return found


def losses_to(ours: dict[str, Floats], theirs: dict[str, Floats], method: str, epsilon: float) -> list[str]:
    """Return in words where ours is significantly worse than a method."""
    return [
        f"{name} at ε = {epsilon:g} ({method}, by {gap:.4f}, p = {p:.1g})"
        for name, (gap, p) in worse_on(ours, theirs).items()
    ]


def mean_table(found: Found, names: Sequence[str], epsilons: Sequence[float], by: int, note: str) -> None:
    """Show the mean over the sets of every method at every ε, and where ours loses."""
    methods = ["ours", *rivals_of(found, names[0], epsilons[0]), "majority", "not private"]
    rows, losses = [], []
    for method in methods:
        row = [method]
        for epsilon in epsilons:
            theirs = scores_of(found, "classes", names, epsilon, method, by)
            row.append(f"{np.mean([scores.mean() for scores in theirs.values()]):.4f}")
            if method not in ("ours", "not private"):
                ours = scores_of(found, "classes", names, epsilon, "ours", by)
                losses += losses_to(ours, theirs, method, epsilon)
        rows.append(row)
    title = f"Mean {('error', 'log loss')[by]} over {len(names)} sets"
    lost = f"Ours is significantly worse (p < {SURE:g}) on: {', '.join(losses)}." if losses else (
        f"Ours is significantly worse (p < {SURE:g}) on no set."
    )  # fmt: skip
    show(title, ["", *(f"ε = {epsilon:g}" for epsilon in epsilons)], rows, f"{note} {lost}")


def set_table(found: Found, names: Sequence[str], epsilons: Sequence[float], by: int) -> None:
    """Show ours beside the best rival on each set."""
    rows = []
    for name in names:
        row = [name]
        for epsilon in epsilons:
            ours = np.mean(np.array(found["classes", name, epsilon]["ours"])[:, by])
            known = rivals_of(found, name, epsilon)
            rivals = [np.mean(chosen(found, "classes", names, epsilon, rival, by)[name]) for rival in known]
            row.append(f"{ours:.3f} / {min(rivals):.3f}")
        rows.append(row)
    title = f"{('Error', 'Log loss')[by]}, ours / the best of the rivals on that very set"
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
    note = (
        "Processor seconds of the fastest fit on one thread, ours with noise of the secure source; diffprivlib keeps "
        "the pure ε."
    )
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
        f"Replace-one, (ε, {DELTA:g}); {cuts} cuts into two thirds and one third. "
        "Rivals' settings are those best, by the very figure shown at that ε, on the other sets; ours is one "
        "rule for all ε and both figures, best by their sum on the other sets. diffprivlib keeps the stricter pure ε, "
        f"in an environment of its own ({pins_of(PEER)})."
    )
    rule_table(settle(found, names, epsilons))
    for by in (0, 1):
        mean_table(found, names, epsilons, by, note)
        set_table(found, names, epsilons, by)
        held_table(found, names, epsilons, by)
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
