"""Answers beside an oracle that knows every nuisance: the cells, the oracles and what is kept of each fit."""
