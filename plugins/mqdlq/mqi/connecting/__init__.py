"""Connection settings, and what a connection is made of."""
