"""Profile-based local privacy: hide which distribution a record came from (Geumlek 2020, ch. 7)."""

from sottovoce.profiles.estimate import CategoryEstimate, estimate_categories
from sottovoce.profiles.graph import ProfileGraph
from sottovoce.profiles.guarantee import (
    ProfilePrivacy,
    independent_profiles,
    independent_samples,
    same_record,
)
from sottovoce.profiles.local import LocalMechanism
from sottovoce.profiles.mechanism import ProfileMechanism, ProfileRelease
from sottovoce.profiles.objectives import MaxOffDiagonal, MeanCost, MeanError, Objective
from sottovoce.profiles.one_bit import flip_probability
from sottovoce.profiles.one_bit_cluster import OneBitCluster
from sottovoce.profiles.post_processing import post_processed
from sottovoce.profiles.posterior import CategoryPosterior, posterior_categories
from sottovoce.profiles.randomized_response import RandomizedResponse
from sottovoce.profiles.smooth_categorical import SmoothCategorical
from sottovoce.profiles.smooth_one_bit import SmoothOneBit
from sottovoce.profiles.two_profile_one_bit import TwoProfileOneBit

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
