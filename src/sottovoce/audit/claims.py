"""Claims: what an audit holds a mechanism to, as a profile and as a trade-off curve."""

from __future__ import annotations

from typing import Any

from sottovoce.privacy.errors import IncompatibleNotions
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.pure import ApproxProfile

__all__ = ["ApproxProfile", "claim_of"]


def claim_of(claim: Any) -> Profile:
    """Return a claim as a profile: a profile itself, or all that follows from a promise."""
    if isinstance(claim, Profile):
        return claim
    if not isinstance(claim, Promise):
        raise IncompatibleNotions(
            f"an audit holds a mechanism to a promise such as ApproxDP(1.0, 1e-3) or to a profile. Got {claim!r}"
        )
    return claim.worst()
