"""The engine of units of work, which execution and restoring share."""
