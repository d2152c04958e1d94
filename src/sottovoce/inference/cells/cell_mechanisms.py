"""Which mechanism answers a question about cells."""

from __future__ import annotations

from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.quantile_posterior import QuantilePosterior
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.searched_quantiles import SearchedQuantiles
from sottovoce.inference.cells.smooth_group_means import SmoothGroupMeans
from sottovoce.inference.cells.smooth_groups_posterior import SmoothGroupsPosterior
from sottovoce.inference.cells.smooth_mean_posterior import SmoothMeanPosterior
from sottovoce.inference.cells.smooth_means import SmoothMeans
from sottovoce.privacy.errors import InvalidValue

CellMechanism = NoisyCells | SearchedQuantiles | SmoothMeans | SmoothGroupMeans
Posterior = CellsPosterior | QuantilePosterior | SmoothMeanPosterior | SmoothGroupsPosterior
POSTERIORS = (CellsPosterior, QuantilePosterior, SmoothMeanPosterior, SmoothGroupsPosterior)
"""What an answer to a question is made from."""


def mechanism_kind(question: Question, n: int | None) -> type[CellMechanism]:
    """Return the kind of mechanism that answers: a search for quantiles or for tails, else one release of cells.

    `n` is the number of records, None where it is a secret.
    """
    if question.bins:
        raise InvalidValue("quantiles are searched for, in cells as narrow as the noise allows; leave bins out")
    if question.tails == "smooth":
        return SmoothGroupMeans if question.by or n is None else SmoothMeans
    return SearchedQuantiles if question.verb == "quantiles" else NoisyCells
