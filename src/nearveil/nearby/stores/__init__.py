"""Where draws and the ledger are kept: never a true place."""
