"""Overview of all handlers, and a handler's home."""
