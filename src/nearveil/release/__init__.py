"""Protect files and frames of any size: read, perturb and write in batches, in little memory."""
