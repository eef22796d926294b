"""A backfill: the snapshots of a window of time under today's rules."""
