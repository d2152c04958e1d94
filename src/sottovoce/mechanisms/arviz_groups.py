"""Draws in the form that ArviZ takes: an `InferenceData` of releases before 1, a `DataTree` of xarray from 1 on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["arviz_groups"]


def arviz_groups(
    groups: Mapping[str, Mapping[str, object]],
    *,
    coords: Mapping[str, Sequence[object]] | None = None,
    dims: Mapping[str, list[str]] | None = None,
    attrs: Mapping[str, object] | None = None,
) -> Any:
    """Return groups of draws, such as ``{"posterior": {"mean": array of chain, draw, ...}}``, each with `attrs`."""
    import arviz  # noqa: PLC0415 - an extra

    plain: dict[str, Any] = {name: dict(group) for name, group in groups.items()}
    named: dict[str, Any] = {"coords": dict(coords or {}), "dims": dict(dims or {})}
    if int(arviz.__version__.partition(".")[0]) < 1:
        return arviz.from_dict(**plain, **named, attrs=dict(attrs or {}))
    tree = arviz.from_dict(plain, **named)
    for group in (tree, *(tree[name] for name in groups)):
        group.attrs.update(attrs or {})
    return tree
