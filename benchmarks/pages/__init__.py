"""Benchmarks of the operator's page."""
