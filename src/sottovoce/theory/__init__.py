"""Notions of privacy that compose with nothing else: amplification, metric and local privacy."""
