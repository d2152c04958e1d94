"""The race of private regressions: its sets and the rivals."""
