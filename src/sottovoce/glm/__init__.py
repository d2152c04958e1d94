"""Generalized linear models: posterior samples whose privacy is certified at every step of the chain.

Needs the `glm` extra (JAX, scikit-learn). Nothing here changes JAX's global settings: double
precision is switched on inside the sampler only.
"""
