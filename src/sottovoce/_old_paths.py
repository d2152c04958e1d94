"""Aliases of the rooms under the paths that they had before they were put into wings, for one version.

Pickles and programs that name ``sottovoce.regression.formula`` find the module that lives in
``sottovoce.inference.regression`` now: the very same one, so that classes stay the same objects.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

__all__ = ["ROOMS", "install"]

ROOMS = {
    "amplification": "theory.amplification",
    "answers": "service.answers",
    "cli": "faces.cli",
    "client": "faces.client",
    "curator": "service.curator",
    "estimators": "faces.estimators",
    "facts": "records.facts",
    "latent": "inference.latent",
    "ledger": "service.ledger",
    "local": "theory.local",
    "metric": "theory.metric",
    "models": "inference.custom",
    "readings": "records.readings",
    "regression": "inference.regression",
    "server": "faces.server",
    "systems": "mechanisms.conjugate",
    "tables": "records.tables",
}
"""Where each room is now."""

_CELLS = (
    "bin_quantiles cell_noise cells_posterior crossed_centres crossed_factors groups intervals latent_cells moments "
    "noisy_cells pooling questions"
)
_FILES = {f"answers.{name}": f"inference.cells.{name}" for name in _CELLS.split()} | {
    "answers.style": "inference.figures"
}
"""Files of the old ``answers`` that are now among the cells of inference."""

_PREFIX = "sottovoce."


def _home(name: str) -> str | None:
    """Return the path of today of a module under its path of before, None where there was none."""
    inner = name.removeprefix(_PREFIX)
    if inner == name:
        return None
    for before, now in _FILES.items():
        if inner == before:
            return _PREFIX + now
    room, dot, remainder = inner.partition(".")
    return None if room not in ROOMS else _PREFIX + ROOMS[room] + dot + remainder


class _Loader(Loader):
    """Loads nothing: the module is the one that lives at another path."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        home = _home(spec.name)
        assert home is not None
        module = importlib.import_module(home)
        spec.loader_state = module.__spec__
        return module

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module, for ``python -m``."""
        home = importlib.util.find_spec(str(_home(fullname)))
        return home.loader.get_code(home.name) if home and isinstance(home.loader, InspectLoader) else None

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put the spec of the alias on the module: give it its own back.
        spec = module.__spec__
        if spec is not None and spec.loader_state is not None:
            module.__spec__ = spec.loader_state


class _Finder(MetaPathFinder):
    """Finds a module under its path of before."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        home = _home(fullname)
        if home is None or home == fullname or importlib.util.find_spec(home) is None:
            return None
        return ModuleSpec(fullname, _Loader())


def install() -> None:
    """Let modules be found under their paths of before."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
