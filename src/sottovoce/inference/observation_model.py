"""Observation models: the law of what was released given the latent truth, from which a posterior follows.

What an inference needs of a mechanism is this law alone. Releases of which each is independent of the others given the
latents and what was released before multiply: adaptive looks have the likelihood of all of them together.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

__all__ = ["ObservationModel"]

ReleaseT_contra = TypeVar("ReleaseT_contra", contravariant=True)
LatentT_contra = TypeVar("LatentT_contra", contravariant=True)


class ObservationModel(Protocol[ReleaseT_contra, LatentT_contra]):
    """The law of a release given a latent truth."""

    def log_likelihood(self, release: ReleaseT_contra, latent: LatentT_contra) -> float:
        """Return the log density of a release, its noise included, given the latent truth."""
        ...
