"""Parse and run MQSC commands."""
