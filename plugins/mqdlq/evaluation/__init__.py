"""Evaluate snapshots by rules in Spark: into a plan, a comparison or a history."""
