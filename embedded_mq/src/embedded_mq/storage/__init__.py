"""The files of a queue manager: its database, its locks, its state."""
