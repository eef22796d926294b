"""Ramp and breaker: messages of a cause move in steps, and stop if they come back or fail."""
