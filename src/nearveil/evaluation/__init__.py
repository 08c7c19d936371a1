"""Experiments: what attacks find, and what protection costs those who use the service."""
