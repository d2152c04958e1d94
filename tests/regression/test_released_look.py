"""The stored looks of a regression: what they say is what was released, and older releases are read without them."""

import json
import math

import numpy as np
import pytest
from scipy import special

from sottovoce.inference.regression import AdaptiveLooks, Coefficients, Formula
from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Count, Facts, Flag, Number, Person

FACTS = Facts(y=Flag(), z=Number(-4, 4), k=Count(9), x=Number(-3, 3), w=Number(-3, 3))
N = 4000


def table(seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(2, N)).clip(-3, 3)
    t = -0.5 + 0.8 * x - 0.4 * w
    return {
        "y": rng.random(N) < special.expit(t),
        "z": np.clip(t + rng.normal(size=N), -4, 4),
        "k": np.minimum(rng.poisson(np.exp(t)), 9),
        "x": x,
        "w": w,
    }


@pytest.mark.parametrize("response", ["y", "z", "k"])
def test_looks_are_stored_with_the_release_and_read_back(response: str) -> None:
    found = AdaptiveLooks(Formula(f"{response} ~ x + w", FACTS), N, 0.5).release(table(), seeded_rng(3)).value
    assert math.isclose(sum(look.share for look in found.looks), 1.0, rel_tol=1e-6)
    read = Coefficients.from_dict(json.loads(json.dumps(found.to_dict())))
    assert read.to_dict() == found.to_dict()
    for before, after in zip(found.looks, read.looks, strict=True):
        assert before.look == after.look and np.array_equal(before.total, after.total)


def test_a_stored_look_says_where_it_was_taken_and_with_how_much_noise() -> None:
    """Another program adds up the weighted score and information at the stored centre: noise alone is between them."""
    data = table()
    found = AdaptiveLooks(Formula("y ~ x + w", FACTS), N, 0.5).release(data, seeded_rng(3)).value
    rows = np.column_stack([np.ones(N), data["x"] / 3, data["w"] / 3])
    for stored in json.loads(json.dumps(found.to_dict()))["looks"]:
        (look,) = [one for one in found.looks if list(one.look.centre) == stored["centre"]]
        T, centre, norm = np.array(stored["shape"]), np.array(stored["centre"]), stored["norm"]
        z = rows @ T.T
        v = norm**2 / np.maximum((z * z).sum(axis=1), norm**2)
        p = special.expit(z @ centre)
        score, information = z.T @ (v * (data["y"] - p)), (z.T * (v * p * (1 - p))) @ z
        assert np.all(np.abs(look.sums["score"] - score) < 5 * look.noise["score"] + 1e-2)
        assert np.all(np.abs(look.sums["information"] - information) < 5 * look.noise["information"] + 1e-2)


def test_a_release_from_before_looks_were_stored_answers_as_it_did() -> None:
    found = AdaptiveLooks(Formula("y ~ x + w", FACTS), N, 0.5).release(table(), seeded_rng(3)).value
    state = json.loads(json.dumps(found.to_dict()))
    del state["looks"]
    read = Coefficients.from_dict(state)
    assert read.looks == () and read.to_dict() == state
    assert np.array_equal(read.interval(), found.interval())


@pytest.mark.parametrize(
    ("name", "value"), [("total", [1.0]), ("total", [math.nan] * 9), ("noise", {}), ("norm", -1.0), ("parts", ["sum"])]
)
def test_a_look_that_is_none_of_the_formula_is_refused(name: str, value: object) -> None:
    found = AdaptiveLooks(Formula("y ~ x + w", FACTS), N, 0.5).release(table(), seeded_rng(3)).value
    state = found.to_dict()
    state["looks"][0][name] = value
    with pytest.raises(SottovoceError):
        Coefficients.from_dict(state)


def test_looks_at_averages_of_persons_are_read_back_as_such() -> None:
    facts = Facts(y=Flag(), x=Number(-3, 3), who=Person())
    formula = Formula("y ~ x", facts)
    rng = np.random.default_rng(2)
    data = {"y": rng.random(300) < 0.5, "x": rng.normal(size=300), "who": np.arange(300) // 3}
    found = AdaptiveLooks(formula, 100, 5.0).release(data, seeded_rng(3)).value
    read = Coefficients.from_dict(found.to_dict())
    assert [type(one.look) for one in read.looks] == [type(one.look) for one in found.looks]
