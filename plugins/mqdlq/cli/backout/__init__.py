"""Advice on backout queues."""
