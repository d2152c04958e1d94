"""`sottovoce plan --system regression:… --within 0.1`: a chain whose sample is provably near the posterior."""

from __future__ import annotations

import math
from typing import Any

from sottovoce.faces.cli.console import console, emit, number, table
from sottovoce.inference.regression.certified_distance import distance, near_posterior
from sottovoce.inference.regression.design import Design
from sottovoce.mechanisms.mechanism_choice import DELTAS
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise


def plan_chain(system: Any, n: int, promise: Promise, within: float, precision: float, *, as_json: bool) -> None:
    """Say which chain is so near, how long it is and what it promises; nothing is read."""
    if not isinstance(system, Design):
        raise InvalidValue("--within is about the chain of a regression: --system regression:features=a/b,label=c")
    built = near_posterior(system, n, promise, prior_precision=precision, within=within)
    length, bound = math.sqrt(system.dimension / precision), distance(built)
    if as_json:
        shown = {"distance": bound, "within": bound / length, "steps": built.n_steps, "target": promise.to_dict()}
        emit({"mechanism": built.to_dict()} | shown)
        return
    rows = [
        ("data weight ρ", number(built.data_weight)),
        ("steps, each so long", f"{built.n_steps:,} of {number(built.chain.step)}"),
        ("W₂ to the posterior, at most", f"{number(bound)}: {number(bound / length, 3)} of the prior's length"),
        *((f"ε at δ = {delta:g}", number(built.profile.epsilon(delta))) for delta in DELTAS),
    ]
    console.print(table(f"A sample that is proven near, n = {n:,}, promise {promise}", ("", ""), rows, left=2))
