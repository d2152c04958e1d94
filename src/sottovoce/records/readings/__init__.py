"""Readings: how records become what a mechanism may see, and how far one record can move that."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.records.readings.ball_sum import BallSum as BallSum
    from sottovoce.records.readings.base import READINGS as READINGS
    from sottovoce.records.readings.base import Aggregate as Aggregate
    from sottovoce.records.readings.base import Block as Block
    from sottovoce.records.readings.base import ReadableRecords as ReadableRecords
    from sottovoce.records.readings.base import Reading as Reading
    from sottovoce.records.readings.base import Sensitivity as Sensitivity
    from sottovoce.records.readings.base import Statistics as Statistics
    from sottovoce.records.readings.category_counts import CategoryCounts as CategoryCounts
    from sottovoce.records.readings.cell_counts import CellCounts as CellCounts
    from sottovoce.records.readings.class_moments import ClassMoments as ClassMoments
    from sottovoce.records.readings.clipped_sum import ClippedSum as ClippedSum
    from sottovoce.records.readings.cross_counts import CrossCounts as CrossCounts
    from sottovoce.records.readings.design_rows import ClippedRows as ClippedRows
    from sottovoce.records.readings.design_rows import Rows as Rows
    from sottovoce.records.readings.function_rows import FunctionRows as FunctionRows
    from sottovoce.records.readings.function_rows import ScoreRows as ScoreRows
    from sottovoce.records.readings.functions import FunctionSum as FunctionSum
    from sottovoce.records.readings.functions import FunctionValue as FunctionValue
    from sottovoce.records.readings.group_moments import GroupMoments as GroupMoments
    from sottovoce.records.readings.hazard_look import HazardLook as HazardLook
    from sottovoce.records.readings.in_memory_records import HeldRecords as HeldRecords
    from sottovoce.records.readings.joint import Joint as Joint
    from sottovoce.records.readings.look import Look as Look
    from sottovoce.records.readings.moments import Moments as Moments
    from sottovoce.records.readings.ordinal_look import OrdinalLook as OrdinalLook
    from sottovoce.records.readings.person_cells import PersonCells as PersonCells
    from sottovoce.records.readings.person_cells import PersonMoments as PersonMoments
    from sottovoce.records.readings.person_cells import PersonRows as PersonRows
    from sottovoce.records.readings.person_look import PersonLook as PersonLook

__getattr__ = lazily(__name__)
