"""Promises, profiles, conversions, composition and filters, the secure random source."""
