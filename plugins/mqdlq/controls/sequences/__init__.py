"""Sequences: messages that move together, and messages that wait for an earlier one."""
