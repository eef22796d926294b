"""Causes of dead letters, and one cause."""
