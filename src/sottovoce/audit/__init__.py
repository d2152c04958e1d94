"""Audit: attacks on our own promises."""
