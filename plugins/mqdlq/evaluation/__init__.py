"""Evaluate snapshots in Spark: write a plan, compare rules tables, or build the history."""
