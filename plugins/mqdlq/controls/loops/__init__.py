"""Loops: recognise messages that came back after a delivery, and quarantine them."""
