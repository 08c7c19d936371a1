"""Guarantees and accounting."""
