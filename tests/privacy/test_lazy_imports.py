"""Rooms load their names when asked for: every name is there, and no other."""

import re
import subprocess
import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "room",
    [
        "privacy",
        "records.readings",
        "mechanisms.conjugate",
        "mechanisms",
        "theory.amplification",
        "inference.regression",
        "faces.estimators",
    ],
)
def test_a_room_has_the_names_that_it_says_it_has(room: str) -> None:
    if room in ("inference.regression", "faces.estimators"):
        pytest.importorskip("jax", reason="the regression extra is not installed")
    module = import_module(f"sottovoce.{room}")
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert vars(module)[name] is getattr(module, name)  # found once, kept
    with pytest.raises(AttributeError, match=rf"sottovoce\.{re.escape(room)}' has no attribute 'nothing'"):
        _ = module.nothing


@pytest.mark.parametrize(("name", "package"), [("NaiveBayes", "sklearn"), ("estimators.LinearSVC", "sklearn")])
def test_what_is_not_installed_is_named_with_its_extra(name: str, package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import sottovoce as sv; sv.{name}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"this needs {package}, which is not installed: pip install 'sottovoce[regression]'" in ended.stderr
