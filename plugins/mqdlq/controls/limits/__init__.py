"""Limits: how much moves in a run, in a second, and to one destination."""
