"""Benchmarks, which measure each number together with a floor in the same run."""
