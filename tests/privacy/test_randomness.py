import copy
import multiprocessing
import os
import pickle
import sys

import numpy as np
import pytest
from randomgen import ChaCha
from scipy import stats

from sottovoce.privacy import InvalidValue, is_secure, secure_rng, seeded_rng


def _in_child(draw) -> bytes:
    """Run `draw` in a forked child and return what it wrote."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, draw())
        os._exit(0)
    os.waitpid(pid, 0)
    return os.read(read, 1000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_never_repeats_its_parent() -> None:
    rng = secure_rng()
    rng.random(3)  # a buffer half used is the dangerous moment
    children = {_in_child(lambda: rng.bytes(32)) for _ in range(5)}
    assert len(children | {rng.bytes(32)}) == 6


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_grandchild_differs_too() -> None:
    rng = secure_rng()

    def grand() -> bytes:
        return rng.bytes(16) + _in_child(lambda: rng.bytes(16))

    both = _in_child(grand)
    assert len({both[:16], both[16:], rng.bytes(16)}) == 3


def test_copies_and_pickles_get_keys_of_their_own() -> None:
    rng = secure_rng()
    others = [copy.copy(rng), copy.deepcopy(rng), pickle.loads(pickle.dumps(rng)), *rng.spawn(2)]
    assert all(is_secure(o) for o in others)
    assert len({o.bytes(16) for o in [rng, *others]}) == len(others) + 1
    with pytest.raises(InvalidValue, match="no state"):
        rng.__setstate__({})


def test_the_generator_is_chacha20_of_its_key() -> None:
    """The first block equals RFC 8439's quarter rounds computed here from the key the generator holds."""
    bits = ChaCha(key=int.from_bytes(bytes(range(32)), "little"), rounds=20)
    first = bits.random_raw(8)
    key = [int.from_bytes(bytes(range(4 * i, 4 * i + 4)), "little") for i in range(8)]
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *key, 0, 0, 0, 0]
    x = list(start)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for i, j, k, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[i] = (x[i] + x[j]) & 0xFFFFFFFF
            v = x[k] ^ x[i]
            x[k] = ((v << turn) | (v >> (32 - turn))) & 0xFFFFFFFF

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for a, b, c, d in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            quarter(a, b, c, d)
    words = [(v + s) & 0xFFFFFFFF for v, s in zip(x, start, strict=True)]
    expected = [words[2 * i] | words[2 * i + 1] << 32 for i in range(8)]
    assert first.tolist() == expected


def test_each_generator_has_its_own_256_bit_key() -> None:
    def key(rng) -> bytes:
        return np.asarray(rng.bit_generator.state["state"]["keysetup"]).tobytes()

    keys = {key(secure_rng()) for _ in range(50)}
    assert len(keys) == 50
    assert all(len(k) == 32 for k in keys)
    assert secure_rng().bit_generator.state["state"]["rounds"] == 20


def test_the_draws_are_uniform() -> None:
    assert stats.kstest(secure_rng().random(200_000), "uniform").pvalue > 1e-9


def test_seeded_generators_repeat_and_are_never_secure() -> None:
    assert seeded_rng(3).bytes(8) == seeded_rng(3).bytes(8) != seeded_rng(4).bytes(8)
    assert not is_secure(seeded_rng(3))
    assert not is_secure(np.random.default_rng())


@pytest.mark.parametrize("seed", [-1, 1.5, None, "x", True])
def test_bad_seeds_are_named(seed: object) -> None:
    with pytest.raises(InvalidValue, match="seed must be"):
        seeded_rng(seed)  # type: ignore[arg-type]


def test_python_is_recent_enough() -> None:
    assert sys.version_info >= (3, 11)
