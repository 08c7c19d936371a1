"""One file for each comparison of ``make bench``."""
