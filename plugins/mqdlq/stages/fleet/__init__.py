"""The state of all handlers and their queues, from the ledger and the handlers' files."""
