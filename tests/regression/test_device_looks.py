"""Looks at records on devices: the sums of the look itself, whatever the chunks, the devices and the order."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from sottovoce.inference.regression import AdaptiveLooks, DeviceRecords, Formula
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.readings import HeldRecords

FACTS = Facts(
    y=Flag(), z=Number(-4, 4), k=Count(9), c=Category(["a", "b", "c"]), x=Number(-3, 3), g=Category(list("pqr"))
)
KINDS = [("y", "logistic"), ("y", "probit"), ("z", "linear"), ("k", "poisson"), ("c", "multinomial")]


def records(n: int) -> dict[str, list]:
    rng = np.random.default_rng(4)
    found = {
        "y": (rng.random(n) < 0.4).tolist(),
        "z": rng.normal(0, 3, n).tolist(),
        "k": rng.poisson(3, n).tolist(),
        "c": rng.choice(["a", "b", "c", "?"], n).tolist(),
        "x": rng.normal(0, 2, n).tolist(),
        "g": rng.choice(list("pqr"), n).tolist(),
    }
    found["x"][3], found["x"][5], found["g"][7] = None, float("inf"), "unheard of"
    return found


def looks(formula: Formula, n: int):
    rng = np.random.default_rng(2)
    d, D = formula.encoding.size, formula.dimension
    for cap, extra in ((0, 0.0), (2, 0.8)):
        shape = np.eye(d) + 0.3 * rng.normal(size=(d, d))
        centre = 0.4 * rng.normal(size=D)
        yield formula.look_at(n, centre, shape, 1.2, ("score", "information", "meat"), cap, extra)


@pytest.mark.parametrize(("response", "family"), KINDS)
def test_the_sums_are_those_of_the_look_to_within_a_step_a_record(response: str, family: str) -> None:
    formula, table = Formula(f"{response} ~ x*g", FACTS, family), records(300)
    held = DeviceRecords.of(formula, table, chunk=128)
    for look in looks(formula, 300):
        seen, wanted = held.look(look), look.read([table[name] for name in formula.columns])
        assert seen.n == wanted.n == 300
        found, meant = look.split(seen.total), look.split(wanted.total)
        assert np.all(np.abs(found["score"] - meant["score"]) <= 300)
        assert np.abs(found["score"] - meant["score"]).max() < 1e-3 * 300 * 2**look.bits
        for part in ("information", "meat"):
            assert np.abs(found[part] - meant[part]).max() < 300 * 4 * 2**look.bits
            assert np.all(found[part] == np.rint(found[part]))


@pytest.mark.parametrize(("response", "family", "cap", "beyond"), [("z", "linear", 1.3, 0.4), ("k", "poisson", 7, 2)])
def test_what_lies_beyond_a_cut_is_that_of_the_look(response: str, family: str, cap: float, beyond: float) -> None:
    formula, table = Formula(f"{response} ~ x*g", FACTS, family), records(300)
    look = replace(next(looks(formula, 300)), cap=cap, beyond=beyond, parts=("score",))
    seen, wanted = (
        DeviceRecords.of(formula, table, chunk=128).look(look),
        look.read([table[k] for k in formula.columns]),
    )
    assert np.abs(wanted.total).max() > 1000
    assert np.abs(seen.total - wanted.total).max() <= 2


@pytest.mark.parametrize(("response", "family"), [("y", "logistic"), ("c", "multinomial")])
def test_chunks_devices_and_order_change_nothing(response: str, family: str) -> None:
    formula, table = Formula(f"{response} ~ x*g", FACTS, family), records(300)
    order = np.random.default_rng(1).permutation(300)
    turned = {name: [column[i] for i in order] for name, column in table.items()}
    one = jax.devices()[0]
    ways = [  # in few shapes, for each is compiled: three chunks, one of which few are in; one; and one a device
        DeviceRecords.of(formula, table, chunk=128),
        DeviceRecords.of(formula, table, chunk=512),
        DeviceRecords.of(formula, table, devices=[one, one, one], chunk=128),
        DeviceRecords.of(formula, turned, chunk=128),
    ]
    for look in looks(formula, 300):
        totals = [way.look(look).total for way in ways]
        assert all(np.array_equal(totals[0], total) for total in totals[1:])


def test_a_release_is_that_of_records_in_memory() -> None:
    formula, table = Formula("y ~ x", FACTS), records(4000)
    mechanism = AdaptiveLooks(formula, 4000, 2.0)
    there = mechanism.release(DeviceRecords.of(formula, table), seeded_rng(3)).value
    here = mechanism.release(HeldRecords((table["x"], table["y"])), seeded_rng(3)).value
    assert np.allclose(there.mean, here.mean, atol=0.02 * here.sd.max())
    assert np.allclose(there.sd, here.sd, rtol=0.02)


@pytest.mark.parametrize("n", [0, 1])
def test_few_records_are_records(n: int) -> None:
    formula = Formula("y ~ x", FACTS)
    held = DeviceRecords.of(formula, {"y": [True] * n, "x": [1.0] * n})
    assert held.look(formula.look(n)).n == n


def test_what_cannot_be_looked_at_is_refused() -> None:
    formula = Formula("y ~ x", FACTS)
    with pytest.raises(InvalidData, match="columns x, y"):
        DeviceRecords.of(formula, {"x": [1.0]})
    with pytest.raises(InvalidData, match="different lengths"):
        DeviceRecords.of(formula, {"x": [1.0], "y": [True, False]})
    with pytest.raises(InvalidValue, match="chunk"):
        DeviceRecords.of(formula, {"x": [1.0], "y": [True]}, chunk=0)
    with pytest.raises(InvalidValue, match="curator"):
        DeviceRecords.of(Formula("y ~ x", FACTS, where="x > 0"), {"x": [1.0], "y": [True]})
    with pytest.raises(InvalidValue, match="nothing else"):
        DeviceRecords.of(formula, {"x": [1.0], "y": [True]}).look("everything")
