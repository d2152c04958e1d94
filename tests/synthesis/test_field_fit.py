"""The field fitted to noisy marginals, beside enumeration of all assignments."""

import numpy as np
import pytest
from scipy import optimize

from sottovoce.inference.latent.junction_tree import BucketTree
from sottovoce.inference.synthesis.consistency import OverlappingTables
from sottovoce.inference.synthesis.field_fit import FieldFit
from sottovoce.inference.synthesis.noisy_marginal import NoisyMarginal
from sottovoce.privacy.errors import InvalidData, InvalidValue

SIZES = {"a": 3, "b": 4, "c": 2}
CLIQUES = (("a", "b"), ("b", "c"), ("b",))


def indicators(cliques=CLIQUES, sizes=SIZES):
    """Which counts each assignment of all columns adds to, (counts, assignments), by enumeration."""
    codes = np.indices(tuple(sizes.values())).reshape(len(sizes), -1)
    rows = []
    for clique in cliques:
        shape = tuple(sizes[v] for v in clique)
        cell = np.ravel_multi_index([codes[list(sizes).index(v)] for v in clique], shape)
        rows.append(np.eye(int(np.prod(shape)))[:, cell])
    return np.concatenate(rows)


def released(probabilities, n, rng, deviation=12.0, cliques=CLIQUES):
    q = indicators(cliques)
    counts = q @ rng.multinomial(n, probabilities)
    noisy = counts + deviation * rng.standard_normal(counts.size)
    ends = np.cumsum([np.prod([SIZES[v] for v in c]) for c in cliques])[:-1]
    parts = np.split(noisy, ends)
    return tuple(NoisyMarginal.of_table(c, p, deviation**2) for c, p in zip(cliques, parts, strict=True))


@pytest.fixture
def law():
    return np.random.default_rng(3).dirichlet(np.full(24, 2.0))


def test_the_estimate_minimises_the_objective_over_all_tables(law):
    n, rng = 3000, np.random.default_rng(1)
    marginals = released(law, n, rng)
    fit = FieldFit(SIZES, n, marginals)
    q, seen = indicators(), np.concatenate([m.counts for m in marginals])

    def objective(logits):
        p = np.exp(logits - logits.max())
        p /= p.sum()
        return 0.5 * (((seen - n * q @ p) / 12.0) ** 2).sum() + (p * np.log(np.maximum(p, 1e-300))).sum()

    best = optimize.minimize(objective, np.zeros(24), method="BFGS", options={"maxiter": 2000, "gtol": 1e-7})
    p = np.exp(best.x - best.x.max())
    p /= p.sum()
    wanted = q @ p
    assert np.abs(fit._sums @ fit.means[0] - wanted).max() * n < 0.6  # of noise with a deviation of 12


def test_sums_are_kept_where_most_cells_are_rarer_than_the_noise():
    """Skewed columns and pairs of them, most cells empty: what noise alone would do to one-way tables, and no more."""
    rng, n, sizes = np.random.default_rng(3), 40_000, dict(zip("abcdef", (16, 9, 30, 6, 3, 20), strict=True))
    common, codes = rng.normal(size=n), {}
    for name, size in sizes.items():
        shares = np.arange(1, size + 1) ** -1.6
        values = common + rng.normal(size=n)
        codes[name] = np.searchsorted(np.quantile(values, np.cumsum(shares / shares.sum())[:-1]), values)
    cliques = [*((name,) for name in sizes), *(tuple(pair) for pair in ("ab", "ac", "cd", "ce", "cf", "bf"))]
    marginals, truth = [], []
    for clique in cliques:
        shape = tuple(sizes[name] for name in clique)
        counts = np.bincount(np.ravel_multi_index([codes[name] for name in clique], shape), minlength=np.prod(shape))
        marginals.append(NoisyMarginal.of_table(clique, counts + 100 * rng.standard_normal(counts.size), 1e4))
        truth.append(counts)
    fit = FieldFit(sizes, n, tuple(marginals))
    off = (fit._sums @ fit.means[0] * n - np.concatenate(truth)) / 100
    assert np.sqrt(np.mean(off[: sum(sizes.values())] ** 2)) < 1.3
    assert np.sqrt(np.mean(off**2)) < 0.8  # no cell below zero: less than the noise itself


def test_draws_are_the_posterior_of_the_linear_model(law):
    """Given tables of all cells, the posterior of counts is Gaussian: GLS on the noise, and sampling beside it."""
    n, rng = 20_000, np.random.default_rng(2)
    fit = FieldFit(SIZES, n, released(law, n, rng))
    shares = fit._sums @ fit.tree.marginals(fit.draws(800, rng))[0].T
    q = indicators()
    moves = q @ (np.eye(24) - 1 / 24)  # of as many records
    u, s, _ = np.linalg.svd(moves, full_matrices=False)
    u = u[:, s > 1e-9]
    noise = 144.0 / n**2 * u @ u.T  # equal variances: the projection
    joint = q @ np.diag(law) @ q.T - np.outer(q @ law, q @ law)
    wanted = np.sqrt(np.diag(noise) + np.diag(joint) / n)
    assert np.abs(np.asarray(shares).std(axis=1) / wanted - 1).max() < 0.12


def test_intervals_hold_the_truth_as_often_as_they_say(law):
    rng, hits = np.random.default_rng(5), []
    truth = indicators() @ law
    for _ in range(25):
        fit = FieldFit(SIZES, 2000, released(law, 2000, rng))
        shares = np.asarray(fit._sums @ fit.tree.marginals(fit.draws(60, rng))[0].T)
        low, high = np.quantile(shares, [0.025, 0.975], axis=1)
        hits.append((low <= truth) & (truth <= high))
    assert 0.9 < np.mean(hits) < 0.985


def test_counts_that_share_cells_are_fitted_together():
    """A table cut coarsely, and one under a condition that leaves cells out, tell of the same cells."""
    fine = NoisyMarginal.of_table(("a", "b"), np.arange(12) * 100.0 + 50, 100.0)
    coarse = NoisyMarginal(("a", "b"), np.repeat([0, -1, 1], 4), np.array([900.0, 3900.0]), np.array([1e-6, 1e-6]))
    n = 7200
    fit = FieldFit({"a": 3, "b": 4}, n, (fine, coarse))
    table = fit.tree.split(fit.means)[0][0] * n
    assert table[0].sum() == pytest.approx(900, abs=3)
    assert table[2].sum() == pytest.approx(3900, abs=6)


def test_a_column_that_nothing_tells_of_is_uniform():
    fit = FieldFit({"a": 3, "z": 4}, 100, (NoisyMarginal.of_table(("a",), [50, 30, 20], 1.0),))
    assert fit.tree.split(fit.means)[1][0] == pytest.approx(np.full(4, 0.25))
    assert FieldFit({"z": 4}, 100, ()).draws(3, np.random.default_rng(0)).shape == (3, 4)


def test_cells_far_below_zero_leave_nothing_undefined():
    table = NoisyMarginal.of_table(("a", "c"), [[1000, -4000], [-300, 0], [5000, 1e6]], 1e4)
    fit = FieldFit({"a": 3, "c": 2}, 6000, (table,))
    draws = fit.tree.marginals(fit.draws(20, np.random.default_rng(1)))[0]
    assert np.all(np.isfinite(draws))
    assert draws.min() >= 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidData, match="no column is called 'z'"):
        FieldFit({"a": 3}, 10, (NoisyMarginal.of_table(("z",), [1, 2, 3], 1.0),))
    with pytest.raises(InvalidData, match="another number of cells"):
        FieldFit({"a": 3}, 10, (NoisyMarginal.of_table(("a",), [1, 2], 1.0),))
    with pytest.raises(InvalidValue, match="at least one record"):
        FieldFit({"a": 3}, 0, ())
    with pytest.raises(InvalidData, match="finite"):
        NoisyMarginal.of_table(("a",), [1, np.inf], 1.0)
    with pytest.raises(InvalidData, match="one of the counts"):
        NoisyMarginal(("a",), np.array([0, 2]), np.array([1.0, 2.0]), np.array([1.0, 1.0]))


def test_a_sweep_gives_each_clique_its_law_under_all_changes_so_far():
    """Beside sums over all assignments, of a field with a loop and a column by itself."""
    rng, sizes, cliques = np.random.default_rng(8), (2, 3, 2, 2, 3), ((0, 1), (1, 2), (0, 2), (2, 3), (3,), (4,))
    tree = BucketTree.of(sizes, cliques)
    start = 3 * rng.normal(size=(2, sum(int(np.prod(s)) for s in tree.shapes)))
    now, visited = start.copy(), []

    def change(clique, law):
        parts = tree.split(now)
        for draw in range(2):
            logs = sum(
                part[draw].reshape([size if v in c else 1 for v, size in enumerate(sizes)])
                for part, c in zip(parts, cliques, strict=True)
            )
            joint = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
            beside = tuple(v for v in range(len(sizes)) if v not in cliques[clique])
            assert np.allclose(law[draw], joint.sum(axis=beside).ravel(), atol=1e-12)
        # Each second change is so large that what was nothing becomes most of all.
        added = rng.normal(size=law.shape) * (2000.0 if len(visited) % 2 else 1.0)
        visited.append(clique)
        parts[clique] += added.reshape(parts[clique].shape)  # a view of `now`
        return added

    after = tree.sweep(start, change)
    assert sorted(visited) == list(range(len(cliques)))
    assert np.allclose(after, now)


def test_nearest_tables_are_those_of_a_quadratic_program():
    """Beside a general solver, of tables far below zero that disagree and have another total."""
    rng, shapes = np.random.default_rng(2), ((2, 3), (3, 2), (3,))
    tables = OverlappingTables((("a", "b"), ("b", "c"), ("b",)), shapes, (0.01, 0.02, 0.005))
    seen = [rng.normal(0.15, 0.25, (1, *shape)) for shape in shapes]
    weights = np.repeat([1 / v for v in tables.variances], [6, 6, 3])
    flat = np.concatenate([part.ravel() for part in seen])

    def unlike(x):
        first, second, third = x[:6].reshape(2, 3).sum(0), x[6:12].reshape(3, 2).sum(1), x[12:]
        return np.concatenate([first - third, second - third, [third.sum() - 1]])

    best = optimize.minimize(
        lambda x: 0.5 * (weights * (x - flat) ** 2).sum(),
        np.full(15, 1 / 6),
        jac=lambda x: weights * (x - flat),
        bounds=[(0, None)] * 15,
        constraints={"type": "eq", "fun": unlike},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    nearest = np.concatenate([part.ravel() for part in tables.non_negative(seen)])
    assert flat.min() < -0.1
    assert np.allclose(nearest, best.x, atol=1e-3)


def test_tables_of_one_law_are_come_to_whatever_their_loops():
    """Shares of one law with cells that nobody is in: sweeps end within the noise."""
    rng, sizes = np.random.default_rng(5), {"a": 4, "b": 5, "c": 3}
    law = rng.dirichlet(np.full(60, 0.3)).reshape(4, 5, 3)
    law = np.where(law < 0.01, 0.0, law) / law[law >= 0.01].sum()
    n, cliques = 20_000, {("a", "b"): 2, ("b", "c"): 0, ("a", "c"): 1}
    tables = [NoisyMarginal.of_table(c, n * law.sum(axis=axis), 100.0) for c, axis in cliques.items()]
    fit = FieldFit(sizes, n, tuple(tables))
    off = np.abs(n * fit._sums @ fit.means[0] - np.concatenate([t.counts for t in tables]))
    assert np.sqrt((off**2).mean()) < 10


def test_precise_tables_keep_their_precision_beside_noisy_ones():
    """A precise coarse count, and a noisy table of the same cells in a loop with others: each weighs by its noise."""
    rng, sizes, n = np.random.default_rng(6), {"a": 6, "b": 6, "c": 6}, 30_000
    law = rng.dirichlet(np.full(216, 0.2)).reshape(6, 6, 6)
    cliques = {("a", "b"): 2, ("b", "c"): 0, ("a", "c"): 1}
    coarse = np.arange(36) // 4
    counted = np.bincount(coarse, weights=n * law.sum(axis=2).ravel()) + 5 * rng.standard_normal(9)
    tables = [NoisyMarginal(("a", "b"), coarse, counted, np.full(9, 25.0))]
    for clique, axis in cliques.items():
        noisy = n * law.sum(axis=axis).ravel() + 200 * rng.standard_normal(36)
        tables.append(NoisyMarginal.of_table(clique, noisy, 40_000.0))
    fit = FieldFit(sizes, n, tuple(tables))
    off = (n * fit._sums @ fit.means[0])[:9] - counted
    assert np.sqrt((off**2).mean()) < 25  # an eighth of the noisy tables' noise
