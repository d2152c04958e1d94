"""Sottovoce: Bayesian inference on sensitive data, with its privacy proven and counted."""
