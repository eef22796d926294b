"""Search for messages, and one message."""
