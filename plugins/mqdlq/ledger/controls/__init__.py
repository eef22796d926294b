"""Repositories of the controls that hold messages back."""
