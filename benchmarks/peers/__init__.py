"""Libraries that cannot live in our environment: each in one of its own, spoken to through JSON."""
