"""Act on messages."""
