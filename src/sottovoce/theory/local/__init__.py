"""Profile-based local privacy: hide which distribution a record came from (Geumlek 2020, ch. 7)."""

from sottovoce.theory.local.estimate import CategoryEstimate, estimate_categories
from sottovoce.theory.local.graph import ProfileGraph
from sottovoce.theory.local.guarantee import ProfilePrivacy, independent_profiles, independent_samples, same_record
from sottovoce.theory.local.local import LocalMechanism
from sottovoce.theory.local.mechanism import ProfileMechanism, ProfileRelease
from sottovoce.theory.local.objectives import MaxOffDiagonal, MeanCost, MeanError, Objective
from sottovoce.theory.local.one_bit import OneBitCluster, SmoothOneBit, TwoProfileOneBit, flip_probability
from sottovoce.theory.local.post_processing import post_processed
from sottovoce.theory.local.posterior import CategoryPosterior, posterior_categories
from sottovoce.theory.local.randomized_response import RandomizedResponse
from sottovoce.theory.local.smooth_categorical import SmoothCategorical

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
