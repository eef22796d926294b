"""Report on a run, from the ledger and the lake."""
