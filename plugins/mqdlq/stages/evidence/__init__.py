"""Compare what a queue manager recorded about a queue with what the runs have seen of it."""
