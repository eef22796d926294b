"""Read messages that a queue manager puts about a queue, as evidence and never as truth."""
