"""Recognise a ledger that is older than the lake or a state queue, and take it on."""
