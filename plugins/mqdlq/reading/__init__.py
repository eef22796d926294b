"""Read what runs left in ledger and lake, for everything that only shows it."""
