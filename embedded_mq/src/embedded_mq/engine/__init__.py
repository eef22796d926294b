"""The queue manager's work for one connection: calls and units of work."""
