"""Nearveil beside its peers."""
