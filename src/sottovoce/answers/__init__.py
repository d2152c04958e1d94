"""Answers: the questions people ask, and what they get back."""

from sottovoce.answers.answer import Answer, Comparison
from sottovoce.answers.asking import parse_question, parse_spend
from sottovoce.answers.cells_posterior import CellsPosterior
from sottovoce.answers.noisy_cells import NoisyCells
from sottovoce.answers.questions import VERBS, Question
from sottovoce.answers.regression import Contrast, Regression

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
