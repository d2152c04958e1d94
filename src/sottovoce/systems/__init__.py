"""Conjugate systems: statistics, posterior, log-partition, worst neighbouring pairs."""
