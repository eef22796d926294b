"""The command server and the PCF commands that it answers."""
