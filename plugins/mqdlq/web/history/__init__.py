"""History of a handler, as charts."""
