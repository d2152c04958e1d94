"""Mechanisms: built from public things alone, then shown the statistics once."""
