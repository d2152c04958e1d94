"""Promises, profiles, conversions, composition and filters, the secure random source."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.privacy.approximate_sampling import SlackProfile
    from sottovoce.privacy.composition import ComposedProfile, compose
    from sottovoce.privacy.concentrated import RenyiProfile, ZeroConcentratedProfile
    from sottovoce.privacy.discrete_gaussian import DiscreteGaussianProfile
    from sottovoce.privacy.errors import (
        BudgetExceeded,
        IncompatibleNotions,
        InvalidData,
        InvalidPromise,
        InvalidValue,
        LedgerCorrupt,
        LedgerUnavailable,
        PromiseUnreachable,
        SottovoceError,
        SourceUnavailable,
        UnprovenPrivacy,
    )
    from sottovoce.privacy.filter import PrivacyFilter
    from sottovoce.privacy.gaussian import GaussianProfile
    from sottovoce.privacy.laplace import DiscreteLaplaceProfile, LaplaceProfile
    from sottovoce.privacy.minimum_profile import LeastProfile
    from sottovoce.privacy.pairs import BetaPairs, GammaRatePairs, GammaShapePairs, LikelihoodRatioProfile, Pairs
    from sottovoce.privacy.profile import Basis, Profile
    from sottovoce.privacy.promises import (
        ApproxDP,
        GaussianDP,
        MaxAdvantage,
        MaxSuccess,
        Promise,
        PureDP,
        RenyiDP,
        ZeroConcentratedDP,
        parse_promise,
    )
    from sottovoce.privacy.pure import BoundedRangeProfile, PureProfile
    from sottovoce.privacy.random_scan import RandomScanProfile
    from sottovoce.privacy.randomness import SecureGenerator, is_secure, secure_rng, seeded_rng
    from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE, Relation
    from sottovoce.privacy.subsampled import SubsampledProfile
    from sottovoce.privacy.subsampling import subsampled_epsilon

__all__ = [
    "ADD_REMOVE",
    "REPLACE_ONE",
    "ApproxDP",
    "Basis",
    "BetaPairs",
    "BoundedRangeProfile",
    "BudgetExceeded",
    "ComposedProfile",
    "DiscreteGaussianProfile",
    "DiscreteLaplaceProfile",
    "GammaRatePairs",
    "GammaShapePairs",
    "GaussianDP",
    "GaussianProfile",
    "IncompatibleNotions",
    "InvalidData",
    "InvalidPromise",
    "InvalidValue",
    "LaplaceProfile",
    "LeastProfile",
    "LedgerCorrupt",
    "LedgerUnavailable",
    "LikelihoodRatioProfile",
    "MaxAdvantage",
    "MaxSuccess",
    "Pairs",
    "PrivacyFilter",
    "Profile",
    "Promise",
    "PromiseUnreachable",
    "PureDP",
    "PureProfile",
    "RandomScanProfile",
    "Relation",
    "RenyiDP",
    "RenyiProfile",
    "SecureGenerator",
    "SlackProfile",
    "SottovoceError",
    "SourceUnavailable",
    "SubsampledProfile",
    "UnprovenPrivacy",
    "ZeroConcentratedDP",
    "ZeroConcentratedProfile",
    "compose",
    "is_secure",
    "parse_promise",
    "secure_rng",
    "seeded_rng",
    "subsampled_epsilon",
]

__getattr__ = lazily(__name__)
