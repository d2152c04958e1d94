"""Pictures of profile graphs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from sottovoce.privacy.numbers import Floats


def plot_profiles(
    names: Sequence[Hashable],
    categories: Sequence[Hashable],
    shares: Floats,
    edges: Sequence[tuple[int, int]],
    ax: Any = None,
) -> Any:
    """Draw each profile as a stacked bar of its categories, and each edge as an arc beside the bars."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 - an extra
    from matplotlib.patches import Arc  # noqa: PLC0415

    k, d = shares.shape
    if ax is None:
        _, ax = plt.subplots(figsize=(7.0, 0.8 + 0.42 * k), layout="constrained")
    rows = np.arange(k)
    remaining = np.zeros(k)
    colours = plt.get_cmap("viridis")(np.linspace(0.15, 0.95, d))
    for category, share, colour in zip(categories, shares.T, colours, strict=True):
        ax.barh(rows, share, left=remaining, height=0.62, color=colour, label=str(category), edgecolor="white")
        remaining += share
    reach = 0.0
    for a, b in edges:
        width = 0.05 + 0.05 * abs(a - b)
        reach = max(reach, width)
        ax.add_patch(
            Arc(
                (-0.015, (a + b) / 2),
                2 * width,
                abs(a - b),
                theta1=90,
                theta2=270,
                color="0.35",
                linewidth=1.4,
            )
        )
    ax.plot(np.full(k, -0.015), rows, "o", color="0.2", markersize=5)
    ax.set_yticks(rows, [str(name) for name in names])
    ax.set_xlim(-0.05 - reach, 1.0)
    ax.set_ylim(k - 0.4, -0.6)
    ax.set_xticks(np.linspace(0, 1, 6))
    ax.set_xlabel("probability")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.legend(title="category", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return ax
