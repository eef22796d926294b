"""Benchmarks: each number beside a floor taken in the same run."""
