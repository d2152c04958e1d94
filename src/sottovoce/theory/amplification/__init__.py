"""Amplification: why a release that is stirred after it is made is more private than before.

`NoisyProjectedSGD` needs the `regression` extra (JAX); the rest does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily
from sottovoce.theory.amplification.coupling import (
    IteratedLaplaceProfile,
    coupled_laplace_renyi,
    iterated_gaussian,
    lipschitz_gaussian,
)
from sottovoce.theory.amplification.diffusion import BoundedMean, OrnsteinUhlenbeck, brownian, calibrated_brownian
from sottovoce.theory.amplification.interval_kernels import LaplaceIntervalKernel, TruncatedGaussianKernel
from sottovoce.theory.amplification.iteration import (
    cyclic_mu,
    iteration_mu,
    iteration_profile,
    path_mu,
    shift_mu,
    thesis_mu,
    thesis_path_renyi,
)
from sottovoce.theory.amplification.kernel_chains import KernelChain
from sottovoce.theory.amplification.kernels import FiniteKernel, Kernel, randomized_response
from sottovoce.theory.amplification.mixing import AmplifiedProfile, amplify, mixing_bounds

if TYPE_CHECKING:
    from sottovoce.theory.amplification.sgd import NoisyProjectedSGD

__all__ = [
    "AmplifiedProfile",
    "BoundedMean",
    "FiniteKernel",
    "IteratedLaplaceProfile",
    "Kernel",
    "KernelChain",
    "LaplaceIntervalKernel",
    "NoisyProjectedSGD",
    "OrnsteinUhlenbeck",
    "TruncatedGaussianKernel",
    "amplify",
    "brownian",
    "calibrated_brownian",
    "coupled_laplace_renyi",
    "cyclic_mu",
    "iterated_gaussian",
    "iteration_mu",
    "iteration_profile",
    "lipschitz_gaussian",
    "mixing_bounds",
    "path_mu",
    "randomized_response",
    "shift_mu",
    "thesis_mu",
    "thesis_path_renyi",
]

__getattr__ = lazily(__name__)  # the rest of the room needs neither JAX nor scikit-learn
