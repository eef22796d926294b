"""Evidence: checks of a queue by what its queue manager records; no outcome depends on it."""
