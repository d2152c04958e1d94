"""Which mechanism answers a question about cells."""

from __future__ import annotations

from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.searched_quantiles import SearchedQuantiles
from sottovoce.privacy.errors import InvalidValue

__all__ = ["CellMechanism", "mechanism_kind"]

CellMechanism = NoisyCells | SearchedQuantiles


def mechanism_kind(question: Question) -> type[NoisyCells] | type[SearchedQuantiles]:
    """Return the kind of mechanism that answers: a search for quantiles, one release of noisy cells for all else."""
    if question.bins:
        raise InvalidValue("quantiles are searched for, in cells as narrow as the noise allows; leave bins out")
    return SearchedQuantiles if question.verb == "quantiles" else NoisyCells
