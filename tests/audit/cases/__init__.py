"""Audited cases of the library, beside those that come with it: each on the pair of data sets that is worst for it."""

import importlib
import pkgutil

from sottovoce.audit.cases import all_cases, case, find_case

__all__ = ["all_cases", "case", "find_case"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
