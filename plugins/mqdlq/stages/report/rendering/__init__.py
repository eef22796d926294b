"""Render a report as text, HTML and JSON."""
