"""Privacy under a metric on data sets, and how many answers until two can be told apart (Dimitrakakis et al. 2014)."""

from sottovoce.theory.metric import approximate, distinguishability, families, le_cam, metric, networks, relaxed_claims

__all__ = ["approximate", "distinguishability", "families", "le_cam", "metric", "networks", "relaxed_claims"]
