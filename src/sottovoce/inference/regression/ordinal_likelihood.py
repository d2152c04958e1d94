r"""The joint likelihood of looks at an ordinal regression: each record's cuts go together, in a known way.

Pseudo-rows are those of the columns, each once for every cut with an equal part of its weight. Whether a record lies
above one cut and above another is known given its log-odds: :math:`\operatorname{cov} = \min(p_j, p_k) - p_j p_k`. So
how far scores vary is a closed form, and intervals need no estimate of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sottovoce.inference.regression.joint_likelihood import JointLikelihood
from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.inference.regression.row_law import PseudoRows, RowLaw
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.readings import Look

__all__ = ["OrdinalLikelihood", "StackedRowLaw"]


class StackedRowLaw(RowLaw):
    """The law of rows of which each is met once at every cut.

    Parameters
    ----------
    plain
        The encoding of the columns.
    cuts
        How many cuts there are: all rows at the first come first, then those at the second.
    """

    def __init__(self, plain: Encoding, cuts: int, priors: JointPriors, nodes: int) -> None:
        super().__init__(plain, priors, nodes)
        self.cuts = cuts

    def rows(self, u: Floats, normals: Floats, odds: Floats, *, slopes: bool = True) -> PseudoRows:
        """Return pseudo-rows made of normal points, once for each combination, and all of that once for each cut."""
        plain, K = super().rows(u, normals, odds, slopes=slopes), self.cuts
        at = np.repeat(np.vstack([np.zeros(K - 1), np.eye(K - 1)]), len(plain.rows), axis=0)
        return PseudoRows(
            np.hstack([np.tile(plain.rows, (K, 1)), at]),
            np.tile(plain.weights, K) / K,
            [(entries, np.tile(part, (1, K))) for entries, part in plain.entered],
            np.tile(plain.drawn, (1, K)),
            plain.sizes,
            np.tile(plain.tilts, (K, 1)),
        )

    def start(self, mean: Floats, covariance: Floats) -> Floats:
        """Return parameters near the means and covariances of the entries of a row."""
        size = self.encoding.size
        return super().start(mean[:size], covariance[:size, :size])


class OrdinalLikelihood(JointLikelihood):
    """The observation model of all looks of one ordinal regression."""

    def _law(self, nodes: int) -> RowLaw:
        return StackedRowLaw(
            self.formula.design, self.formula.encoding.size - self.formula.design.size + 1, self.priors, nodes
        )

    def _going_together(self, t: Floats, records: Floats) -> Floats:
        """Return how what two cuts of one record pull with varies together, (cuts, cuts, rows), for all records."""
        K = self.law.cuts  # type: ignore[attr-defined]
        p = self.formula.model.mean(t.reshape(K, -1))
        product = p[:, None] * p[None]
        return np.asarray((np.minimum(p[:, None], p[None]) - product) * records.reshape(K, -1)[0] / K)

    def _scores_together(
        self, u: Floats, t1: Floats, records: Floats, scaled: Sequence[Floats], offs: list[Floats], looks: list[Look]
    ) -> Floats:
        """Return the covariance of the scores of records: (looks, 1, entries, looks, 1, entries)."""
        varies = self._going_together(t1, records)
        each = np.array([part.reshape(len(varies), -1, self.d) for part in scaled])
        turned = np.einsum("jkr,bkre->bjre", varies, each, optimize=True)
        count = len(looks)
        full = each.transpose(0, 3, 1, 2).reshape(count * self.d, -1) @ turned.transpose(1, 2, 0, 3).reshape(
            -1, count * self.d
        )
        return np.asarray((full + full.T) / 2).reshape(count, 1, self.d, count, 1, self.d)

    def without_noise(self, information: Floats, rows: Floats, t: Floats, records: Floats) -> Floats:
        """Return HJ⁻¹H: cuts of one record tell less than as many records do."""
        varies = self._going_together(t, records)
        x = rows.reshape(len(varies), -1, self.d)
        meat = np.einsum("jrd,jkr,kre->de", x, varies, x, optimize=True)
        return np.asarray(information @ np.linalg.solve(meat, information))
