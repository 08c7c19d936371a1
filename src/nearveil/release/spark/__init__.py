"""Engines that protect more people than one machine holds."""
