"""Looks that show the same sums again are walked and concluded from once: both are functions of the sums."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sottovoce.inference.regression import AdaptiveLooks
from sottovoce.inference.regression.sampler_settings import SamplerSettings

__all__ = ["concluded_once"]

_FEW = SamplerSettings(guesses=8)
"""Of what noise hides so many guesses are made, where a release makes 48: they follow from the sums as all would."""


@pytest.fixture(scope="module")
def concluded_once() -> Iterator[None]:
    """Keep, for the tests of one file, where sums led to and what was concluded from them.

    Every look is taken of the records anew; only what follows from its noisy sums is not computed again.
    """
    walk = AdaptiveLooks.walk
    asked: dict[Any, Any] = {}
    ends: dict[Any, Any] = {}
    concluded: dict[int, Any] = {}

    def walked(looks: AdaptiveLooks, shown: Callable[..., Any]) -> Any:
        name, sums = json.dumps(looks.to_dict()), []
        while (key := (name, *(one.tobytes() for one in sums))) in asked:
            sums.append(shown(*asked[key]))
        if key in ends:
            return ends[key]
        known = list(sums)

        def fresh(look: Any, scales: Any) -> Any:
            if known:
                return known.pop(0)
            asked[(name, *(one.tobytes() for one in sums))] = look, scales
            sums.append(shown(look, scales))
            return sums[-1]

        path = walk(looks, fresh)
        return ends.setdefault((name, *(one.tobytes() for one in sums)), path)

    def once(looks: AdaptiveLooks, path: list[tuple[Any, Any]]) -> Any:
        if id(path) not in concluded:  # paths are kept, so that no other takes the place of one
            (concluded[id(path)],) = looks.conclude_all([path], _FEW)
        return concluded[id(path)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AdaptiveLooks, "walk", walked)
        patch.setattr(AdaptiveLooks, "conclude", once)
        yield
