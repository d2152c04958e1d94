"""Rooms load their names when asked for: every name is there, and no other."""

from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "room", ["privacy", "readings", "systems", "mechanisms", "amplification", "regression", "estimators"]
)
def test_a_room_has_the_names_that_it_says_it_has(room: str) -> None:
    if room in ("regression", "estimators"):
        pytest.importorskip("jax", reason="the regression extra is not installed")
    module = import_module(f"sottovoce.{room}")
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert vars(module)[name] is getattr(module, name)  # found once, kept
    with pytest.raises(AttributeError, match=rf"sottovoce\.{room}' has no attribute 'nothing'"):
        _ = module.nothing
