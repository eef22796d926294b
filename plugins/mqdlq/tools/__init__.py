"""Tools that experts start by hand; no run of a handler needs them."""
