"""Privacy under a metric on data sets, and how many answers until two can be told apart (Dimitrakakis et al. 2014)."""
