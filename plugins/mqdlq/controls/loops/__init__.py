"""Recognise messages that came back after a delivery."""
