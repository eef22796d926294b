"""Queues and the queue manager as objects: definitions, authority, opening, inquiring."""
