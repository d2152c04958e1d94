"""The picture of a table that releases give together: a field fitted to noisy marginals, and tables drawn from it."""
