"""Decide about batches of messages with NumPy and Arrow. No module here imports Spark."""
