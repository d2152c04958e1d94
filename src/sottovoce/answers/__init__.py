"""Answers: the questions people ask, and what they get back."""
