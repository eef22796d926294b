"""The triggers that tasks wait with."""
