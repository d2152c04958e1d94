"""What a misspecified mean does to the scores of all looks: the covariance Ψ of a joint likelihood."""

from __future__ import annotations

import numpy as np

from sottovoce.inference.regression.joint_likelihood import JointLikelihood
from sottovoce.privacy.numbers import Floats

__all__ = ["misfit_covariance"]

_TINY = 1e-12
"""Added to the information of a row, so that it has a root where a class is never met."""


def misfit_covariance(model: JointLikelihood, u: Floats) -> Floats:
    """Return by how much, for τ = 1, an error of the mean of any shape moves the scores: Ψ."""
    pseudo = model.law.rows(u, model.normals * model.stretches[:, None], model.odds)
    theta, _ = model.coefficients.theta(u, pseudo)
    t1 = pseudo.rows @ theta.reshape(model.outputs, model.d).T
    slope = model.information(t1)
    # Roots of information, row by row and output by output: errors are as large beside what responses vary by.
    roots = np.linalg.cholesky(slope + _TINY * np.eye(model.outputs))
    records = np.repeat(model.n * model._whole(u)[0] * pseudo.weights, model.outputs)

    def spread(rows: Floats) -> Floats:
        return np.asarray(np.einsum("rmk,rd->rkmd", roots, rows).reshape(len(records), -1))

    scaled = []
    for place in model.scored:
        look = model.looks[place].released.look
        z = pseudo.rows @ look.matrix.T
        part = z * look.weights((z * z).sum(axis=1))[:, None]
        if model.counts:  # of what lies beyond the cut less is seen
            part = part * (look.model.slope(t1[:, 0]) / slope[:, 0, 0])[:, None]
        scaled.append(spread(part if not look.beyond else 0.0 * part))
    each = np.hstack(scaled)
    free = spread(pseudo.rows)[:, np.tile(model.coefficients.free, model.outputs)]
    full = free.T @ (free * records[:, None])
    full += 1e-9 * np.trace(full) * np.eye(len(full))
    cross = each.T @ (free * records[:, None])
    complete = model.n * (each.T @ (each * records[:, None]) - cross @ np.linalg.solve(full, cross.T))
    return np.asarray((complete + complete.T) / 2)
