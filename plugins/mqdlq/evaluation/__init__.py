"""The evaluation in Spark: snapshots and rules to a plan, as functions over DataFrames."""
