"""Privacy under a metric on data sets, and how many answers until two can be told apart (Dimitrakakis et al. 2014)."""

from sottovoce.metric import distinguishability, metric, networks, relaxed_claims

__all__ = ["distinguishability", "metric", "networks", "relaxed_claims"]
