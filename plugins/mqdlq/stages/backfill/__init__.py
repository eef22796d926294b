"""A backfill: evaluate the snapshots of a past interval under today's rules."""
