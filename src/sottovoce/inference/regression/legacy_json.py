"""Regressions as the first ledgers wrote them: bounds and loss beside the numbers, no system, other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sottovoce.inference.regression.design import Design

_BOUNDS = ("loss", "dimension", "data_norm", "radius")
_CHAIN = ("prior_precision", "data_weight", "step", "n_steps")
_DERIVED = ("noise", "balance")  # of moments, where they follow from μ


def renewed(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mechanism's numbers as they are written today; those of today as they are.

    What was not written then was not to be chosen: how flat a refined regression makes its rows, and its first prior.
    """
    given = dict(state)
    if given.get("mechanism") == "filtered regression":  # once the information had a share of its own
        given.pop("information", None)
    phases = given.get("phases")
    bounds = given if "loss" in given else phases[0] if phases else {}
    if "system" in given or "loss" not in bounds:
        return given
    given.setdefault("n", bounds.get("n"))
    given["system"] = {"system": Design.word, "loss": {"loss": bounds["loss"]}} | {
        name: bounds[name] for name in _BOUNDS[1:] if name in bounds
    }
    for name in _BOUNDS:
        given.pop(name, None)
    if "samples" in given:
        given["draws"] = given.pop("samples")
    if "mu" in given:
        given = {name: value for name, value in given.items() if name not in _DERIVED}
    if phases:
        given["phases"] = [{name: phase[name] for name in _CHAIN} for phase in phases]
        given.setdefault("precision", "float64")
        given.setdefault("draws", phases[0].get("samples", 1))
    if "flattening_mu" in given:
        first = given.pop("statistics_mu", None)
        prior = given["system"]["dimension"] / 30.0**2
        given["flattening"] = {"mu": given.pop("flattening_mu")}
        given["statistics"] = None if first is None else {"mu": first, "prior_precision": prior}
    return given
