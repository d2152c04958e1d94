"""A registry names what there is, imports nothing to tell, and refuses what is not there or is there already."""

import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, PureDP
from sottovoce.privacy.registry import Registry

PLACES = {"pure": "sottovoce.privacy.promises:PureDP", "purest": "sottovoce.privacy.promises:PureDP"}


class Own:
    word = "own"


def test_words_kinds_and_strangers():
    known = Registry("promise", PLACES, "sottovoce.nothing")
    assert known.kinds == ["pure"]
    assert known.add(Own) is Own
    assert (list(known), known.strangers) == (["pure", "purest", "own"], ["own"])
    assert known["own"] is Own
    assert (known.lasts("pure"), known.lasts("own")) == (True, False)
    assert known.within("sottovoce.ledger") == ["own"]
    assert known["purest"] is PureDP


def test_one_word_has_one_meaning_and_an_unknown_one_none():
    known = Registry("promise", PLACES, "sottovoce.nothing")
    with pytest.raises(InvalidValue, match="a promise called 'pure' already"):
        known.add(type("Other", (), {"word": "pure"}))
    for word in ("approx", 3, None):
        with pytest.raises(InvalidValue, match=r"known: pure$"):
            known[word]
    assert ApproxDP.word not in known
