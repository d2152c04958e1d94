"""The figures and tables of the papers, and ours: one small module each, under a registered name."""
