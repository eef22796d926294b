"""Connection settings, where they come from, and the structures built from them."""
