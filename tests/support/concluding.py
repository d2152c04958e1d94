"""Looks that show the same sums again are concluded from once: it takes longest, and it is a function of the sums."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sottovoce.regression import AdaptiveLooks

__all__ = ["concluded_once"]


@pytest.fixture(scope="module")
def concluded_once() -> Iterator[None]:
    """Keep, for the tests of one file, what was concluded from each path of noisy sums."""
    conclude, found = AdaptiveLooks.conclude, {}

    def once(looks: AdaptiveLooks, path: list[tuple[Any, Any]]) -> Any:
        glances = [glance for glance, _ in path]
        sums = [part if part is None else part.tobytes() for g in glances for part in (g.score, g.information, g.meat)]
        noises = [(g.look, g.n, g.sigma, g.tau, g.tau_meat) for g in glances]
        key = (json.dumps(looks.to_dict()), *noises, *sums)
        if key not in found:
            found[key] = conclude(looks, path)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AdaptiveLooks, "conclude", once)
        yield
