"""Protect files and frames of any size: read, perturb and write in batches, in little memory.

`protect` has the order of the steps, `fitting` learns from a file first, `publishing` moves batches of it, `charging`
enters the loss in the ledger, `card` words the guarantee. `nearveil.spark` is the same for a DataFrame on a cluster.
"""
