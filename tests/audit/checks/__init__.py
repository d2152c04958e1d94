"""Checks of the code rather than of an installation: what can be computed, integrated or counted."""

import importlib
import pkgutil

from sottovoce.audit.checks import CheckResult, all_checks, known_checks, run_check

__all__ = ["CheckResult", "all_checks", "known_checks", "run_check"]

known_checks()  # first, as they come first
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
