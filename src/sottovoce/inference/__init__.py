"""Observation models, likelihoods and posteriors of what was released, and the mechanisms that need them."""
