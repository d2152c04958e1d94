"""What as many records would tell of the coefficients of a regression without any noise."""

from __future__ import annotations

import numpy as np

from sottovoce.inference.regression.joint_likelihood import JointLikelihood
from sottovoce.privacy.numbers import Floats

__all__ = ["covariance_without_noise"]


def covariance_without_noise(model: JointLikelihood, u: Floats) -> Floats:
    """Return the covariance of θ that as many records without noise would leave."""
    pseudo = model.law.rows(u, model.normals, model.odds)
    moments = model.moments(u, slopes=False)
    t = pseudo.rows @ moments.theta.reshape(model.outputs, model.d).T
    slope = model.information(t)
    varies = model.residual_law(u).variance if model.linear else 1.0
    if model.counts:
        slope = slope / (1 + model.count_law(u).dispersion * slope)
    if model.formula.family == "probit":
        slope = slope**2 / np.maximum(model.variance(t), 1e-12)
    records = model.n * model.records_known(u) * pseudo.weights / varies
    weighed = np.einsum("r,rkm,ri->kirm", records, slope, pseudo.rows).reshape(model.outputs * model.d, -1)
    information = (weighed.reshape(-1, len(records), model.outputs).transpose(0, 2, 1) @ pseudo.rows).reshape(
        model.outputs * model.d, -1
    )
    if model.averages is not None:
        information = _averaged(model, u, information)
    information = model.without_noise(information, pseudo.rows, t, records)
    root = np.kron(np.eye(model.outputs), np.linalg.inv(moments.root))
    return np.asarray(np.linalg.inv(information + root.T @ root))


def _averaged(model: JointLikelihood, u: Floats, information: Floats) -> Floats:
    """Return the information of averages of persons' rows: H(GHG')⁻¹H."""
    assert model.averages is not None
    turn = np.kron(np.eye(model.outputs), model.averages.turn(u))
    varies = turn @ information @ turn.T
    return np.asarray(information @ np.linalg.pinv(varies, 1e-12, hermitian=True) @ information)
