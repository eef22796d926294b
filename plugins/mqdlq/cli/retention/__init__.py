"""The commands of retention: prune archive and ledger, and keep legal holds."""
