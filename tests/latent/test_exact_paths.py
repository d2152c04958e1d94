"""Paths of states come with exactly the probability of their weights, and no record moves these beyond its bound."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
from scipy import stats

from sottovoce.inference.latent import ChainGrid, Field, HiddenMarkovModel, TemperedHiddenMarkov
from sottovoce.inference.latent.exact_paths import exact_path
from sottovoce.inference.latent.tempered_hidden_markov import log_ranges
from sottovoce.privacy.numbers import floor_float
from sottovoce.privacy.randomness import secure_rng

GRID = ChainGrid(Field("region", ("N", "S")), (Field("month", (1, 2, 3)),))
FIELDS = (Field("kind", ("a", "b")), Field("hurt", (0, 1, 2)))
MODEL = HiddenMarkovModel(GRID, FIELDS, states=2)


def weights(misfits, bits, initial, transition):
    """Return every path with its probability, multiplied out in sixty digits."""
    mpmath.mp.dps = 60
    found = {}
    for path in itertools.product(range(len(initial)), repeat=len(misfits)):
        weight = mpmath.mpf(float(initial[path[0]]))
        for a, b in itertools.pairwise(path):
            weight *= mpmath.mpf(float(transition[a][b]))
        steps = sum(int(misfits[t][z]) for t, z in enumerate(path))
        found[path] = weight * mpmath.exp(-mpmath.mpf(steps) / 2**bits)
    whole = sum(found.values())
    return {path: weight / whole for path, weight in found.items()}


def test_paths_come_as_often_as_they_should():
    rng = np.random.default_rng(3)
    misfits, bits = rng.integers(0, 3 << 40, (3, 3)), 40
    initial, transition = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3)
    chances = weights(misfits, bits, initial, transition)
    source = secure_rng()
    drawn = [tuple(exact_path(misfits, bits, initial, transition, source)) for _ in range(2000)]
    counts = np.array([drawn.count(path) for path in chances])
    expected = 2000 * np.array([float(p) for p in chances.values()])
    some = expected > 4
    rest = [[counts[~some].sum()], [expected[~some].sum()]]
    observed, wanted = (np.concatenate([part[some], more]) for part, more in zip((counts, expected), rest, strict=True))
    assert stats.chisquare(observed, wanted).pvalue > 1e-6


class Bits:
    """A uniform number that is given, bit by bit, then zeros; the same for every state."""

    def __init__(self, head):
        self.head, self.place = head, 0

    def bytes(self, length):
        start, self.place = 8 * self.place, self.place + length
        part = self.head[start : start + 8 * length].ljust(8 * length, "0")
        return int(part, 2).to_bytes(length, "big")


def test_states_of_probability_two_to_the_minus_sixty_are_reached():
    """One step, two states, the first e^-42 as likely: U below that finds it, U above it does not."""
    misfits, flat = np.array([[42 << 40, 0]]), np.full((2, 2), 0.5)
    chance = next(iter(weights(misfits, 40, flat[0], flat).values()))
    digits = 200
    at = int(mpmath.floor(chance * mpmath.mpf(2) ** digits))
    assert chance < mpmath.mpf(2) ** -60
    below, above = (f"{at + k:0{digits}b}" for k in (0, 1))
    assert exact_path(misfits, 40, flat[0], flat, Bits(below)) == [0]
    assert exact_path(misfits, 40, flat[0], flat, Bits(above)) == [1]
    assert exact_path(misfits, 40, flat[0], flat, Bits("0" * 64 + "1")) == [0]


def test_no_record_moves_a_path_by_more_than_its_bound():
    """All pairs of single records, all paths, emissions at their corners: in whole steps, without tolerance."""
    mech = TemperedHiddenMarkov(MODEL, n=1, temperature=3.0, floor=0.15)
    weight = floor_float(1 / Fraction(3.0))
    corners = []
    for k in (2, 3):
        theta = np.full((2, k), 0.15 / k)
        theta[0, 0] = theta[1, 1] = 1 - (k - 1) * (0.15 / k)
        corners.append(theta)
    events = list(itertools.product(*(f.categories for f in (*GRID.fields, *FIELDS))))
    found = []
    for event in events:
        one = MODEL.counts({f: [v] for f, v in zip(MODEL.tables.columns, event, strict=True)})
        made = mech.misfits([table.astype(float) for table in one], corners, weight)
        cells = [
            [sum(int(row[t][z]) for t, z in enumerate(path)) for path in itertools.product(range(2), repeat=3)]
            for row in made.steps
        ]
        found.append([a + b for a in cells[0] for b in cells[1]])
    bound = sum(Fraction(b) for b in log_ranges(MODEL, 0.15).tolist()) / 3 * (1 << made.bits)
    widest = 0
    for first, second in itertools.permutations(found, 2):
        moves = [p - q for p, q in zip(first, second, strict=True)]
        widest = max(widest, max(moves) - min(moves))
    assert widest <= 2 * bound
    assert widest > 2 * bound * Fraction(9, 10)


def test_secure_chains_have_the_law_of_seeded_ones():
    mech = TemperedHiddenMarkov(MODEL, n=40, temperature=2.0, sweeps=1, floor=0.2)
    rng = np.random.default_rng(4)
    records = [rng.choice(f.categories, 40) for f in (*GRID.fields, *FIELDS)]
    seen = mech.reading.read(records)
    exact = mech.run(seen, secure_rng(), chains=120)[0].states.reshape(120, -1)
    quick = mech.run(seen, np.random.default_rng(6), chains=4000)[0].states.reshape(4000, -1)
    # Of two states none is the first by name: compare how many cells share the state of the first.
    same = [(part == part[:, :1]).sum(axis=1) for part in (exact, quick)]
    table = np.array([np.bincount(part, minlength=7)[1:] for part in same])
    assert stats.chi2_contingency(table + 1).pvalue > 1e-4
