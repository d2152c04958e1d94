"""Posteriors of the cells of a table whose counts, sums and quantiles were released with noise."""
