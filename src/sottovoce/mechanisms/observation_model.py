"""An observation model: the law of what releases show, given the latent truth behind all of them.

Whatever was released of the same records, in whatever order and however the next was chosen by those before it, has
the likelihood Π log_likelihood(release, latent): the choice of a release is a function of earlier ones and cancels. So
one posterior reads all of them, free of cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from sottovoce.privacy.errors import InvalidValue

__all__ = ["ObservationModel", "infer"]

Release_contra = TypeVar("Release_contra", contravariant=True)
Latent_contra = TypeVar("Latent_contra", contravariant=True)
Posterior_co = TypeVar("Posterior_co", covariant=True)


class ObservationModel(Protocol[Release_contra, Latent_contra, Posterior_co]):
    """What shows how releases came about.

    Releases that saw the same records share their sampling error: `log_likelihood` takes all of them together.
    """

    def log_likelihood(self, releases: Sequence[Release_contra], latent: Latent_contra) -> float:
        """Return the log density of the releases given the latents, but for a constant."""
        ...

    def posterior(self, releases: Sequence[Release_contra]) -> Posterior_co:
        """Return the prior times that likelihood, by the model's own method."""
        ...


def infer(
    model: ObservationModel[Release_contra, Latent_contra, Posterior_co], releases: Sequence[Release_contra]
) -> Posterior_co:
    """Return the posterior given all releases together: post-processing, free of cost."""
    if not releases:
        raise InvalidValue("nothing was released that this model explains; ask something first")
    return model.posterior(releases)
