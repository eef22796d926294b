"""MQSC: commands as text, and what they do."""
