"""Runs and rules of a handler."""
