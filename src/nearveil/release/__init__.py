"""Releases: `protect` for files and frames, `fit` for what mechanisms learn; Spark has `nearveil.spark`."""
