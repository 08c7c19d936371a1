"""Checks of mechanisms from the outside."""
