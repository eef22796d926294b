"""Read snapshots: Spark's rows of them, or row groups as tasks. The only room that asks Spark."""
