"""Readings: how records become what a mechanism may see, and how far one record can move that."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazily import lazily

if TYPE_CHECKING:
    from sottovoce.readings.ball_sum import BallSum
    from sottovoce.readings.base import READINGS, Block, Looks, Movement, Reading, Seen, Statistics
    from sottovoce.readings.category_counts import CategoryCounts
    from sottovoce.readings.cell_counts import CellCounts
    from sottovoce.readings.class_moments import ClassMoments
    from sottovoce.readings.clipped_sum import ClippedSum
    from sottovoce.readings.cross_counts import CrossCounts
    from sottovoce.readings.function_rows import FunctionRows, ScoreRows
    from sottovoce.readings.functions import FunctionSum, FunctionValue
    from sottovoce.readings.group_moments import GroupMoments
    from sottovoce.readings.held_records import HeldRecords
    from sottovoce.readings.joint import Joint
    from sottovoce.readings.look import Look
    from sottovoce.readings.moments import Moments
    from sottovoce.readings.person_cells import PersonCells, PersonMoments, PersonRows
    from sottovoce.readings.person_look import PersonLook
    from sottovoce.readings.rows import ClippedRows, Rows

__all__ = [
    "READINGS",
    "BallSum",
    "Block",
    "CategoryCounts",
    "CellCounts",
    "ClassMoments",
    "ClippedRows",
    "ClippedSum",
    "CrossCounts",
    "FunctionRows",
    "FunctionSum",
    "FunctionValue",
    "GroupMoments",
    "HeldRecords",
    "Joint",
    "Look",
    "Looks",
    "Moments",
    "Movement",
    "PersonCells",
    "PersonLook",
    "PersonMoments",
    "PersonRows",
    "Reading",
    "Rows",
    "ScoreRows",
    "Seen",
    "Statistics",
]

__getattr__ = lazily(__name__)
