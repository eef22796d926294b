"""Repositories of the controls that hold messages back, and of checks by evidence."""
