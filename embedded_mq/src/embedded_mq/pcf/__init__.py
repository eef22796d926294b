"""PCF: commands as messages, answered by the command server."""
