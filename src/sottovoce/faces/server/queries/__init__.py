"""Queries: what is answered of a drawn parameter, from a safe set, parsed and never run as code."""

from sottovoce.faces.server.queries.evaluation import check_query, evaluate
from sottovoce.faces.server.queries.parsing import parse_query

__all__ = ["check_query", "evaluate", "parse_query"]
