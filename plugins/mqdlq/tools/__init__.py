"""What experts start by hand; the handler's runs need none of it."""
