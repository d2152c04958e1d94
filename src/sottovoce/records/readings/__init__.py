"""Readings: how records become what a mechanism may see, and how far one record can move that."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.records.readings.ball_sum import BallSum
    from sottovoce.records.readings.base import (
        READINGS,
        Aggregate,
        Block,
        ReadableRecords,
        Reading,
        Sensitivity,
        Statistics,
    )
    from sottovoce.records.readings.category_counts import CategoryCounts
    from sottovoce.records.readings.cell_counts import CellCounts
    from sottovoce.records.readings.class_moments import ClassMoments
    from sottovoce.records.readings.clipped_sum import ClippedSum
    from sottovoce.records.readings.cross_counts import CrossCounts
    from sottovoce.records.readings.design_rows import ClippedRows, Rows
    from sottovoce.records.readings.function_rows import FunctionRows, ScoreRows
    from sottovoce.records.readings.functions import FunctionSum, FunctionValue
    from sottovoce.records.readings.group_moments import GroupMoments
    from sottovoce.records.readings.in_memory_records import HeldRecords
    from sottovoce.records.readings.joint import Joint
    from sottovoce.records.readings.look import Look
    from sottovoce.records.readings.moments import Moments
    from sottovoce.records.readings.person_cells import PersonCells, PersonMoments, PersonRows
    from sottovoce.records.readings.person_look import PersonLook

__all__ = [
    "READINGS",
    "Aggregate",
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
    "Moments",
    "PersonCells",
    "PersonLook",
    "PersonMoments",
    "PersonRows",
    "ReadableRecords",
    "Reading",
    "Rows",
    "ScoreRows",
    "Sensitivity",
    "Statistics",
]

__getattr__ = lazily(__name__)
