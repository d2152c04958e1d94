"""Answers: the questions people ask, and what they get back."""

from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.question_reading import VERBS
from sottovoce.inference.cells.questions import Question
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.comparison import Comparison
from sottovoce.service.answers.question_parser import parse_question, parse_spend
from sottovoce.service.answers.regression import Contrast, Regression

__all__ = [
    "VERBS",
    "Answer",
    "CellsPosterior",
    "Comparison",
    "Contrast",
    "NoisyCells",
    "Question",
    "Regression",
    "parse_question",
    "parse_spend",
]
