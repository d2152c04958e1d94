"""Promises, profiles, conversions, composition and filters, the secure random source."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.privacy.approximate_sampling import SlackProfile as SlackProfile
    from sottovoce.privacy.composition import ComposedProfile as ComposedProfile
    from sottovoce.privacy.composition import compose as compose
    from sottovoce.privacy.concentrated import RenyiProfile as RenyiProfile
    from sottovoce.privacy.concentrated import ZeroConcentratedProfile as ZeroConcentratedProfile
    from sottovoce.privacy.discrete_gaussian import DiscreteGaussianProfile as DiscreteGaussianProfile
    from sottovoce.privacy.errors import BudgetExceeded as BudgetExceeded
    from sottovoce.privacy.errors import IncompatibleNotions as IncompatibleNotions
    from sottovoce.privacy.errors import InvalidData as InvalidData
    from sottovoce.privacy.errors import InvalidPromise as InvalidPromise
    from sottovoce.privacy.errors import InvalidValue as InvalidValue
    from sottovoce.privacy.errors import LedgerCorrupt as LedgerCorrupt
    from sottovoce.privacy.errors import LedgerUnavailable as LedgerUnavailable
    from sottovoce.privacy.errors import PromiseUnreachable as PromiseUnreachable
    from sottovoce.privacy.errors import SottovoceError as SottovoceError
    from sottovoce.privacy.errors import SourceUnavailable as SourceUnavailable
    from sottovoce.privacy.errors import UnprovenPrivacy as UnprovenPrivacy
    from sottovoce.privacy.filter import PrivacyFilter as PrivacyFilter
    from sottovoce.privacy.gaussian import GaussianProfile as GaussianProfile
    from sottovoce.privacy.laplace import DiscreteLaplaceProfile as DiscreteLaplaceProfile
    from sottovoce.privacy.laplace import LaplaceProfile as LaplaceProfile
    from sottovoce.privacy.minimum_profile import LeastProfile as LeastProfile
    from sottovoce.privacy.pairs import BetaPairs as BetaPairs
    from sottovoce.privacy.pairs import GammaRatePairs as GammaRatePairs
    from sottovoce.privacy.pairs import GammaShapePairs as GammaShapePairs
    from sottovoce.privacy.pairs import LikelihoodRatioProfile as LikelihoodRatioProfile
    from sottovoce.privacy.pairs import Pairs as Pairs
    from sottovoce.privacy.profile import Basis as Basis
    from sottovoce.privacy.profile import Profile as Profile
    from sottovoce.privacy.promises import ApproxDP as ApproxDP
    from sottovoce.privacy.promises import GaussianDP as GaussianDP
    from sottovoce.privacy.promises import MaxAdvantage as MaxAdvantage
    from sottovoce.privacy.promises import MaxSuccess as MaxSuccess
    from sottovoce.privacy.promises import Promise as Promise
    from sottovoce.privacy.promises import PureDP as PureDP
    from sottovoce.privacy.promises import RenyiDP as RenyiDP
    from sottovoce.privacy.promises import ZeroConcentratedDP as ZeroConcentratedDP
    from sottovoce.privacy.promises import parse_promise as parse_promise
    from sottovoce.privacy.pure import BoundedRangeProfile as BoundedRangeProfile
    from sottovoce.privacy.pure import PureProfile as PureProfile
    from sottovoce.privacy.random_scan import RandomScanProfile as RandomScanProfile
    from sottovoce.privacy.randomness import SecureGenerator as SecureGenerator
    from sottovoce.privacy.randomness import is_secure as is_secure
    from sottovoce.privacy.randomness import secure_rng as secure_rng
    from sottovoce.privacy.randomness import seeded_rng as seeded_rng
    from sottovoce.privacy.relation import ADD_REMOVE as ADD_REMOVE
    from sottovoce.privacy.relation import REPLACE_ONE as REPLACE_ONE
    from sottovoce.privacy.relation import Relation as Relation
    from sottovoce.privacy.subsampled import SubsampledProfile as SubsampledProfile
    from sottovoce.privacy.subsampling import subsampled_epsilon as subsampled_epsilon

__getattr__ = lazily(__name__)
