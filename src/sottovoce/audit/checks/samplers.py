"""The draws of a release: against the density that its mechanism states, and on a public grid."""

from __future__ import annotations

import numpy as np
from scipy import stats

from sottovoce.audit.cases_conjugate import Small, small_cases, stated
from sottovoce.audit.checks.fits import ALARM, independence, kolmogorov, uniforms
from sottovoce.audit.checks.quadrature import nodes
from sottovoce.audit.checks.result import check, verdict
from sottovoce.audit.low_bits import lowest_bit
from sottovoce.mechanisms.conjugate.distributions import Dirichlet, NormalVector
from sottovoce.mechanisms.conjugate.exact_posteriors import DirichletLaw
from sottovoce.mechanisms.exact_sampling import cells_of
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.records.readings import ClippedSum
from sottovoce.theory.amplification.diffusion import BoundedMean, OrnsteinUhlenbeck

_RECORDS = 40
_DRAWS = 20_000
_FEW, _SOME, _RELEASES = 12, 500, 6


@check("samplers follow their density")
def samplers() -> tuple[bool, str]:
    """Release many draws; sent through the stated distribution function they must be uniform and independent."""
    problems, worst = [], 1.0
    for case in small_cases(_RECORDS):
        draws = np.asarray(case.mechanism.release(case.large, seeded_rng(11), draws=_DRAWS).value)
        if len(draws) != _DRAWS:
            problems.append(f"{case.name}: {len(draws)} draws were let out, and {_DRAWS} asked for")
            continue
        u = _uniforms(case, draws)
        p_values = [kolmogorov(column) for column in u.T]
        p_values += [independence(a, b) for a, b in zip(u.T[:-1], u.T[1:], strict=True)]
        p_values.append(independence(u[:-1, 0], u[1:, 0]))  # one draw and the next
        worst = min(worst, *p_values)
        if min(p_values) < ALARM:
            problems.append(f"{case.name}: p = {min(p_values):.2g} that the draws follow the stated density")
            break
    return verdict(problems, f"{_DRAWS} draws of {len(small_cases(_RECORDS))} mechanisms, least p = {worst:.2g}")


def _uniforms(case: Small, draws: Floats) -> Floats:
    """Return one column of uniforms a coordinate, independent if the draws follow the stated density."""
    law = stated(case.mechanism, case.large)
    match law:
        case Dirichlet(alpha):
            # θ₁, then θ₂ of what θ₁ leaves: independent Beta variables.
            remaining = 1 - np.cumsum(draws, axis=1) + draws
            remainder = np.cumsum(alpha[::-1])[::-1]
            shares = [
                stats.beta.cdf(draws[:, k] / remaining[:, k], alpha[k], remainder[k + 1]) for k in range(alpha.size - 1)
            ]
            return np.column_stack(shares)
        case NormalVector(centre, spread):
            return np.asarray(stats.norm.cdf(draws, centre, np.sqrt(spread)))
    grid = nodes(law, law)
    return uniforms(grid, grid.log_density(law), draws)[:, None]


@check("releases keep to a public grid")
def grids() -> tuple[bool, str]:
    """Posterior samples are middles of public cells, and diffused values are multiples of one power of two."""
    problems = []
    for case in small_cases(_FEW):
        law = case.mechanism.law(case.mechanism.see(case.large))  # type: ignore[attr-defined]
        if isinstance(law, DirichletLaw):  # products of sticks, each of which is such a middle
            continue
        cells = cells_of(law[0] if isinstance(law, list) else law)
        ends = [getattr(law, end, None) for end in ("low", "high")]
        for rng, draws in ((seeded_rng(2), _SOME), (secure_rng(), _RELEASES)):
            values = np.ravel(case.mechanism.release(case.large, rng, draws=draws).value)
            values = values[~np.isin(values, [float(end) for end in ends if end is not None])]
            if not np.array_equal(values, cells.round(values)):
                problems.append(f"{case.name}: samples lie off the middles of their cells")
                break
    walk = OrnsteinUhlenbeck(BoundedMean(ClippedSum(0, 1)), 1, 1.0, 0.5, 1.0)
    path = walk.path(np.full(_SOME, 0.1), [1.0], seeded_rng(3))
    if lowest_bit(path).min() < np.log2(walk.noise) - 22:
        problems.append("a diffused value carries bits far below its noise")
    return verdict(problems, f"{len(small_cases(_FEW))} samplers and a diffusion, {_SOME} draws each")
