"""What the queue manager does for one connection: calls, units of work."""
