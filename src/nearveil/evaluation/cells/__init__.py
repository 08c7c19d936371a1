"""Pieces of work: measured apart, kept when finished, put together by the tables and figures that need them."""
