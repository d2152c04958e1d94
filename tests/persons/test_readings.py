"""What many rows of a person come to: against plain loops, over all replacements of a person, in any order."""

import hashlib
import itertools
import math
from collections import Counter, defaultdict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from sottovoce.inference.cells.cell_noise import cell_noises, cell_profile
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.facts import Category, Flag, Number
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.readings import READINGS, PersonCells, PersonLook, PersonMoments, PersonRows, Reading
from sottovoce.records.readings.persons import whose

STEPS = 2**20
GROUPS = PersonMoments((("A", "B"),), (-1,), measures=((0.0, 2.0),), fillers=(None,), squared=True)
BINNED = PersonMoments((("A", "B"),), (1,), (0.0, 0.5, 1.0, 2.0), (), (0.25,))
LOOK = PersonLook(
    Encoding(("x", "g"), (Number(-1, 3), Category(("A", "B"))), ((), ((0, -1),), ((1, 1),))),
    Flag(),
    "logistic",
    (0.3, -0.2, 0.1),
    ((1.0, 0.0, 0.2), (0.1, 0.9, 0.0), (0.0, 0.0, 1.3)),
    1.2,
    bits=10,
)


def rows_of(seed, count=400, persons=40):
    rng = np.random.default_rng(seed)
    who = [None if rng.random() < 0.05 else f"p{k}" for k in rng.integers(0, persons, count)]
    ward = rng.choice(["A", "B", "C", None], count).tolist()
    number = [None if rng.random() < 0.1 else float(v) for v in rng.normal(1, 1, count)]
    return list(zip(ward, number, who, strict=True))


def columns(rows):
    return [list(column) for column in zip(*rows, strict=True)]


def t_steps(value, low, high):
    return round(Fraction(min(max(value, low), high) - (low + high) / 2) * STEPS / Fraction((high - low) / 2))


def by_person(rows):
    found = defaultdict(list)
    for *cells, who in rows:
        if who is not None:
            found[who].append(cells)
    return found


def test_a_person_is_in_the_group_of_most_rows_with_the_average_there():
    rows = rows_of(1)
    counts, sums, squares = [0, 0, 0], [0, 0], [0, 0]
    for own in by_person(rows).values():
        inside = [("AB".index(g), t_steps(x, 0, 2)) for g, x in own if g in ("A", "B") and x is not None]
        if not inside:
            counts[2] += 1
            continue
        number = Counter(g for g, _ in inside)
        cell = max(number, key=lambda g: (number[g], -g))
        t = round(Fraction(sum(t for g, t in inside if g == cell), number[cell]))
        counts[cell] += 1
        sums[cell] += t
        squares[cell] += round(Fraction(t * t, STEPS))
    seen = GROUPS.read(columns(rows))
    assert seen.n == len(by_person(rows))
    assert seen.total.tolist() == [*counts, *sums, *squares]


def test_a_number_is_averaged_before_it_is_cut_into_bins():
    seen = BINNED.read([["A", "A", "A", "zzz"], [0.0, 2.0, None, 1.5], ["p", "p", "p", "q"]])
    # p: 0, 2 and 0.25 for the missing one, 0.75 on average; q: of the group that unknown ones count as.
    assert seen.n == 2
    assert seen.total.tolist() == [0, 1, 0, 0, 0, 1, 0]


def test_shares_of_a_person_add_up_to_one_and_are_rounded_down():
    rows = rows_of(2)
    reading = PersonCells((False, True), (("A", "B"), (0.5, 1.5)), (-1, 3))
    totals = [0] * 8
    for own in by_person(rows).values():
        cells = ["AB".index(g) * 4 + (3 if x is None else (x >= 0.5) + (x >= 1.5)) for g, x in own if g in ("A", "B")]
        for cell, number in Counter(cells).items():
            totals[cell] += STEPS * number // len(cells)
    seen = reading.read(columns(rows))
    assert seen.total.tolist() == [*totals, seen.n * STEPS - sum(totals)]


def test_at_most_k_rows_of_a_person_count_chosen_by_their_hash():
    rows = rows_of(3)
    reading = PersonRows((False,), (("A", "B", "C"),), (-1,), rows=3, key="spring")
    totals = [0, 0, 0]
    for who, own in by_person(rows).items():
        number, hashed = Counter(), []
        for ward, _ in own:
            if ward in ("A", "B", "C"):
                cell = "ABC".index(ward)
                number[cell] += 1
                text = f"spring|{who}|{cell}|{number[cell]}"
                hashed.append((hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), cell))
        for _, cell in sorted(hashed)[:3]:
            totals[cell] += 1
    ward, _, who = columns(rows)
    seen = reading.read([ward, who])
    assert seen.total.tolist() == [*totals, 3 * seen.n - sum(totals)]


def test_the_choice_of_rows_prefers_no_cell_and_counts_copies():
    """Of nine rows A and one B, B is chosen once in ten; and another key chooses others."""
    persons = [who for who in range(1200) for _ in range(10)]
    wards = (["A"] * 9 + ["B"]) * 1200
    seen = [PersonRows((False,), (("A", "B"),), (-1,), rows=1, key=key).read([wards, persons]) for key in ("a", "b")]
    for one in seen:
        assert abs(one.total[1] - 120) < 4 * math.sqrt(108)
    assert seen[0].total[1] != seen[1].total[1]


def test_the_score_of_a_person_is_the_average_of_their_rows():
    rows = [(x, g, y, who) for (g, x, who), y in zip(rows_of(4), itertools.cycle([True, False, None]), strict=False)]
    single = [
        (who, LOOK.contributions(*_encoded(x, g, y)))
        for x, g, y, who in rows
        if who is not None and x is not None and g in ("A", "B") and y is not None
    ]
    persons = {who for *_, who in rows if who is not None}
    score, information, meat = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3))
    for person in persons:
        own = [one for who, one in single if who == person]
        if own:
            w = np.rint(sum(one[0][0] for one in own) / len(own))
            score, meat = score + w, meat + np.outer(w, w)
            information += np.rint(sum(np.outer(one[1][0][0], one[1][0][0]) for one in own) / len(own))
    seen = LOOK.read(columns(rows))
    parts = LOOK.split(seen.total)
    assert seen.n == len(persons)
    assert np.array_equal(parts["score"], score)
    assert np.array_equal(parts["information"], information)
    assert np.array_equal(parts["meat"], meat)


def _encoded(x, g, y):
    row, known = LOOK.encoding.rows([np.array([x]), np.array(["AB".index(g)], dtype=float)], 1)
    assert known.all()
    return row, np.array([float(y)])


READ = {
    "groups": (GROUPS, [("A", 0.0), ("A", 2.0), ("B", 2.0), ("B", 0.0), (None, 1.0), ("A", None), ("B", 1.3)]),
    "binned": (BINNED, [("A", 0.0), ("A", 2.0), ("B", 0.6), ("?", None)]),
    "shares": (PersonCells((False,), (("A", "B", "C"),), (-1,)), [("A",), ("B",), ("C",), (None,)]),
    "rows": (PersonRows((False,), (("A", "B", "C"),), (-1,), rows=2), [("A",), ("B",), ("C",), (None,)]),
    "look": (LOOK, [(-9.0, "A", True), (3.0, "A", False), (3.0, "B", True), (0.2, "B", False), (None, "A", True)]),
}


@pytest.mark.parametrize("name", READ)
def test_no_replacement_of_a_person_moves_more_than_is_claimed(name):
    """All ways to give one person up to three rows, beside two others: gaps of all pairs against the claim."""
    reading, kinds = READ[name]
    others = [(*kinds[0], "other"), (*kinds[-2], "other"), (*kinds[1], "third")]
    seen = []
    for number in (1, 2, 3):
        for own in itertools.combinations_with_replacement(kinds, number):
            seen.append(reading.read(columns([*[(*row, "me") for row in own], *others])))
    assert {one.n for one in seen} == {3}
    steps = np.array([reading.steps(one) for one in seen])
    gaps = (steps[:, None] - steps[None]).reshape(-1, reading.size).astype(float)
    start = 0
    for block in reading.blocks(3):
        part = gaps[:, start : start + block.size]
        assert (part**2).sum(axis=1).max() <= block.movement.squares
        if block.movement.total is not None:
            assert np.abs(part).sum(axis=1).max() <= block.movement.total
        start += block.size
    for one in seen:
        reading.check(one)
        assert reading.neighbours(one, seen[0])
    if name != "look":
        for noise in ("laplace", "gaussian"):
            profile = cell_profile(reading, noise, 3.0)
            scales = np.repeat([one.scale for one in cell_noises(reading, noise, 3.0)], reading.sizes)
            if noise == "laplace":
                assert np.abs(gaps / scales).sum(axis=1).max() <= profile.epsilon(0.0) * (1 + 1e-12)
            else:
                assert ((gaps / scales) ** 2).sum(axis=1).max() / 2 <= profile.renyi(2.0) / 2 * (1 + 1e-9)
    else:
        for scales in (
            {"score": 3.0, "information": 900.0, "meat": 1e4},
            {"score": 9.0, "information": 40.0, "meat": 50.0},
        ):
            noise = np.concatenate(
                [
                    np.full(size, scales[k.removesuffix(" off")] / (1.0 if k in scales else math.sqrt(2)))
                    for k, size in reading.sizes.items()
                ]
            )
            assert np.linalg.norm(gaps / noise, axis=1).max() <= reading.joint(scales)


@pytest.mark.parametrize("name", READ)
def test_the_order_of_rows_does_not_matter(name):
    reading, kinds = READ[name]
    rng = np.random.default_rng(5)
    rows = [
        (*kinds[i], f"p{k}") for i, k in zip(rng.integers(0, len(kinds), 200), rng.integers(0, 30, 200), strict=True)
    ]
    first = reading.read(columns(rows))
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(rows))
        assert reading.read(columns([rows[i] for i in order])) == first


@pytest.mark.parametrize("name", READ)
def test_rows_of_nobody_are_left_out_and_odd_identifiers_make_nothing_fail(name):
    reading, kinds = READ[name]
    rows = [(*kinds[0], "a"), (*kinds[1], "b")]
    plain = reading.read(columns(rows))
    for nobody in (None, math.nan, [1], {}, 0.5, math.inf):
        assert reading.read(columns([*rows, (*kinds[2], nobody)])) == plain
    for somebody in (7, "", "7", True, b"x", 2**80, np.int64(3), ("t", 1)):
        assert reading.read(columns([*rows, (*kinds[2], somebody)])).n == 3
    assert reading.read(columns([(*kinds[0], 1), (*kinds[0], 1.0), (*kinds[0], np.int32(1))])).n == 1


def test_who_is_called_the_same_is_one_person_in_whatever_type():
    one = [1, 1.0, True, "1", np.int64(1), np.str_("1"), Decimal(1), Decimal("1.00"), Fraction(1)]
    others = ["a", np.str_("a"), Decimal("0.5"), Decimal("-0"), 0]
    nobody = [Decimal("NaN"), Decimal("1e999999999"), Decimal("1e-999999999"), 10**5000, 0.5, [1], None]
    assert whose([*one, *others, *nobody])[0].tolist() == [0] * len(one) + [1, 1, 2, 3, 3] + [-1] * len(nobody)


def test_persons_of_whom_nothing_is_known_give_zeros_whatever_the_family():
    encoding = Encoding(("a", "b"), (Number(-1, 1), Number(-1, 1)), (((0, -1),), ((1, -1),)))
    shape, response = ((1.0, 0.0), (0.0, 1.0)), Category(["u", "v", "w"])
    look = PersonLook(encoding, response, "multinomial", (0.0,) * 4, shape, 1.0, bits=4)
    seen = look.read([[None, 0.5, 0.5], [0.5, None, 0.5], ["u", "v", "?"], ["ann", "ann", "bob"]])
    assert seen.n == 2
    assert not seen.total.any()


@pytest.mark.parametrize("word", ["person moments", "person cells", "rows of a person", "person look"])
def test_person_readings_are_registered_and_read_back(word):
    reading = READINGS[word].example()
    assert reading.persons
    assert Reading.from_dict(reading.to_dict()) == reading


def test_what_is_asked_wrongly_is_refused():
    with pytest.raises(InvalidData, match="the person last"):
        GROUPS.read([["A"], [1.0]])
    with pytest.raises(InvalidData, match="different lengths"):
        GROUPS.read([["A"], [1.0], ["p", "q"]])
    with pytest.raises(InvalidValue, match="rows must be"):
        PersonRows((False,), (("A",),), (-1,), rows=0)
