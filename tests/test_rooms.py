"""The names of the rooms: each is imported when first used, from where its room says for whoever checks types."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import sottovoce
from sottovoce.privacy.lazy_imports import homes_of, lazily

ROOT = Path(sottovoce.__file__).parent
ROOMS = [
    ".".join(("sottovoce", *place.parent.relative_to(ROOT).parts))
    for place in sorted(ROOT.rglob("__init__.py"))
    if "lazily(__name__)" in place.read_text(encoding="utf-8")
]


def test_the_rooms_are_found() -> None:
    assert {"sottovoce", "sottovoce.records.readings", "sottovoce.mechanisms.conjugate", "sottovoce.mechanisms"} <= set(
        ROOMS
    )


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_room_is_where_its_room_says(room: str) -> None:
    module = importlib.import_module(room)
    unsaid = set(homes_of(room)) - set(module.__all__) - {"numpyro"}
    assert not unsaid, f"{room} imports {sorted(unsaid)} for types; write `import name as name` to give it to others"
    assert list(module.__all__) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    for name, home in homes_of(room).items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name)


def test_a_name_that_is_nowhere_is_said_so_and_nothing_is_loaded_before_it_is_used() -> None:
    with pytest.raises(AttributeError, match=r"module 'sottovoce.records.readings' has no attribute 'Nothing'"):
        lazily("sottovoce.records.readings")("Nothing")
    code = "import sys, sottovoce; sottovoce.__version__; assert 'numpy' not in sys.modules; sottovoce.ApproxDP"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'ibis' not in sys.modules"], check=True)
