"""Read snapshots as Spark's rows, or as row groups divided into tasks."""
