import math

import numpy as np
import pytest

from sottovoce.privacy import (
    ApproxDP,
    GaussianDP,
    InvalidPromise,
    Promise,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
    parse_promise,
)

ALL = [
    ("pure:0.5", PureDP(0.5)),
    ("approx:1,1e-06", ApproxDP(1, 1e-6)),
    ("renyi:15,0.1", RenyiDP(15, 0.1)),
    ("zcdp:0.1", ZeroConcentratedDP(0.1)),
    ("gaussian:0.3", GaussianDP(0.3)),
]


@pytest.mark.parametrize(
    ("promise", "text"),
    [
        (PureDP(0.1 + 0.2), "pure:0.3"),
        (PureDP(0.3 + 1e-11), "pure:0.300001"),
        (ApproxDP(1 / 3, 1e-6 / 3), "approx:0.333334,3.33334e-07"),
        (RenyiDP(21.98451234, 0.0535455123), "renyi:21.9845,0.0535456"),
        (RenyiDP(21.9999999, 0.1), "renyi:21.9999,0.1"),
    ],
)
def test_a_promise_is_printed_towards_less_privacy_and_kept_exactly(promise: Promise, text: str) -> None:
    """ε and δ never smaller, an order never larger than they are."""
    assert str(promise) == text
    assert parse_promise(promise.exact()) == promise


@pytest.mark.parametrize(("text", "promise"), ALL)
def test_every_promise_reads_back(text: str, promise: Promise) -> None:
    assert str(promise) == text
    assert parse_promise(text) == promise
    assert Promise.from_json(promise.to_json()) == promise
    assert eval(repr(promise)) == promise


def test_promises_are_frozen_hashable_and_take_numpy_numbers() -> None:
    assert PureDP(np.float64(0.5)) == PureDP(0.5)
    assert len({PureDP(0.5), PureDP(0.5), PureDP(1)}) == 2
    with pytest.raises(AttributeError):
        PureDP(0.5).epsilon = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, -math.inf, "x", None, [1, 2]])
@pytest.mark.parametrize("kind", [PureDP, ZeroConcentratedDP, GaussianDP])
def test_bad_numbers_are_named(kind: type, bad: object) -> None:
    with pytest.raises(InvalidPromise, match=r"must be"):
        kind(bad)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ApproxDP(1, 1), "delta must be < 1"),
        (lambda: ApproxDP(1, 2.5), "delta must be < 1"),
        (lambda: RenyiDP(0.5, 1), "order must be >= 1"),
        (lambda: RenyiDP(math.inf, 1), "order must be finite"),
        (lambda: Promise(), "promises nothing"),
    ],
)
def test_senseless_promises_raise(make, words: str) -> None:
    with pytest.raises(InvalidPromise, match=words):
        make()


def test_order_one_is_allowed() -> None:
    assert RenyiDP(1, 0.5).order == 1.0


@pytest.mark.parametrize("text", ["", "pure", "pure:", "pure:a", "pure:1,2", "approx:1", "laplace:1", "pure:-1"])
def test_text_that_is_no_promise_raises(text: str) -> None:
    with pytest.raises(InvalidPromise):
        parse_promise(text)


@pytest.mark.parametrize("text", ["nonsense", "[1]", '{"promise": "pure"}', '{"promise": "nope", "epsilon": 1}', "{}"])
def test_json_that_is_no_promise_raises(text: str) -> None:
    with pytest.raises(InvalidPromise):
        Promise.from_json(text)
