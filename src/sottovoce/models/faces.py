"""A fitted model as ArviZ data and as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.answers.style import COLOURS, figure, words
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.shares import percent

if TYPE_CHECKING:
    from sottovoce.models.fit import ModelFit

__all__ = ["plot", "to_arviz"]


def to_arviz(fit: ModelFit) -> Any:
    """Return posterior, posterior predictive and the log likelihood of each noisy count as ArviZ data."""
    import arviz  # noqa: PLC0415 - an extra

    from sottovoce.models.comparing import cell_log_likelihood  # noqa: PLC0415 - it compares fits

    chains, size = next(iter(fit.draws.values())).shape[:2]
    logs, made, seen = [], {}, {}
    for name, part in fit.program.sites.items():
        logs.append(cell_log_likelihood(fit.whole(name), part))
        label = fit.program._label(name, "noisy counts")
        made[label] = fit.predictive(name).reshape(chains, size, -1)
        seen[label] = part.counts
    joined = np.concatenate(logs, axis=1).reshape(chains, size, -1)
    return arviz.from_dict(
        posterior=dict(fit.draws),
        posterior_predictive=made,
        observed_data=seen,
        log_likelihood={"noisy counts": joined},
        attrs={"likelihood": fit.form, "diverged": fit.diverged},
    )


def plot(fit: ModelFit, name: str | None, level: float) -> Any:
    """Draw the noisy counts with a band of their noise, and the model's expected counts with their interval."""
    if not 0 < level < 1:
        raise InvalidValue(f"level lies between 0 and 1. Got {level!r}")
    seen = fit.seen(name)
    whole = fit.whole(name)[:, : seen.size] * seen.n
    low, middle, high = np.quantile(whole, [(1 - level) / 2, 0.5, (1 + level) / 2], axis=0)
    reach = _noise_reach(seen, level)
    drawing, axes = figure(width=7.0, height=3.8)
    place = np.arange(seen.size)
    axes.errorbar(
        place,
        seen.counts,
        yerr=reach,
        fmt="o",
        ms=4,
        lw=1.2,
        color=COLOURS[5],
        label=f"noisy count ± {percent(level)} of noise",
    )
    axes.fill_between(place, low, high, step="mid", alpha=0.35, color=COLOURS[0], label=f"model, {percent(level)}")
    axes.step(place, middle, where="mid", color=COLOURS[0])
    if seen.cells is not None and seen.size <= 40:
        labels = [" / ".join(map(words, label)) for label in seen.cells.labels]
        axes.set_xticks(place, labels, rotation=60, ha="right", fontsize=7)
    axes.set_ylabel("records")
    axes.set_title(words(seen.name if fit.program.single else f"{name}: {seen.name}"))
    axes.legend()
    return drawing


def _noise_reach(seen: Any, level: float) -> float:
    """Return the half width that holds `level` of the noise."""
    if seen.noise == "laplace":
        return float(-seen.scale * np.log(1 - level))
    from scipy.special import ndtri  # noqa: PLC0415

    return float(seen.scale * ndtri((1 + level) / 2))
