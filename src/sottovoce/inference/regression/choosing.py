"""Which mechanism: by name, or by n, d and the promise alone."""

from __future__ import annotations

from typing import Any

from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.residuals import family_of
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.mechanism_choice import names_for
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise


def choose(
    name: str,
    design: Design,
    n: int,
    target: Promise,
    *,
    prior_scale: float | None = None,
    draws: int = 1,
    n_steps: int | None = None,
    precision: str = "float64",
) -> Mechanism:
    """Return the mechanism called `name`, calibrated to `target`.

    ``auto`` is the filtered regression for classes and lines, which predicts best, and the refined posterior for other
    losses: a choice made by the loss; all settings are by n, d and the promise.
    `prior_scale` is a public guess of ‖w‖; the mechanism's own where None, of chains 30/data_norm.

    >>> from sottovoce.inference.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import GaussianDP
    >>> choose("auto", Design(Logistic(), 3, 1.0), 1000, GaussianDP(0.5)).word
    'filtered regression'
    """
    known = names_for(design)
    if name == "auto":
        name = "refined" if family_of(design.loss) is None else "filtered"
    if name not in known:
        raise InvalidValue(f"no mechanism is called {name!r}; use one of auto, {', '.join(known)}")
    scale = 30.0 / design.data_norm if prior_scale is None else prior_scale
    chains: dict[str, Any] = {"draws": draws, "n_steps": n_steps, "precision": precision}
    options: dict[str, dict[str, Any]] = {
        "filtered": {"prior_scale": prior_scale},
        "refined": chains | {"prior_scale": scale * design.data_norm},
        "localised": chains | {"scales": (scale, scale / 2, scale / 4)},
        "diffused": chains | {"prior_scale": scale},
        "concentrated": chains | {"prior_scale": scale},
        "noisy-moments": {"prior_scale": scale},
        "tempered": {"prior_scale": scale, "n_steps": n_steps},
    }
    kind, settings = known[name]
    mechanism: Mechanism = kind.calibrate(design, n, target, **options.get(name, {}), **settings)
    return mechanism
