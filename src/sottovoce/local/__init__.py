"""Profile-based local privacy: hide which distribution a record came from (Geumlek 2020, ch. 7)."""

from sottovoce.local.estimate import CategoryEstimate, estimate_categories
from sottovoce.local.graph import ProfileGraph
from sottovoce.local.guarantee import (
    ProfilePrivacy,
    independent_profiles,
    independent_samples,
    same_record,
)
from sottovoce.local.local import LocalMechanism
from sottovoce.local.mechanism import ProfileMechanism, ProfileRelease
from sottovoce.local.objectives import MaxOffDiagonal, MeanCost, MeanError, Objective
from sottovoce.local.one_bit import OneBitCluster, SmoothOneBit, TwoProfileOneBit, flip_probability
from sottovoce.local.post_processing import post_processed
from sottovoce.local.posterior import CategoryPosterior, posterior_categories
from sottovoce.local.randomized_response import RandomizedResponse
from sottovoce.local.smooth_categorical import SmoothCategorical

__all__ = [
    "CategoryEstimate",
    "CategoryPosterior",
    "LocalMechanism",
    "MaxOffDiagonal",
    "MeanCost",
    "MeanError",
    "Objective",
    "OneBitCluster",
    "ProfileGraph",
    "ProfileMechanism",
    "ProfilePrivacy",
    "ProfileRelease",
    "RandomizedResponse",
    "SmoothCategorical",
    "SmoothOneBit",
    "TwoProfileOneBit",
    "estimate_categories",
    "flip_probability",
    "independent_profiles",
    "independent_samples",
    "post_processed",
    "posterior_categories",
    "same_record",
]
