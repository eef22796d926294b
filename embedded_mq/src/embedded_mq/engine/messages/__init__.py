"""Messages: put, got, browsed, selected, with their properties, reports and groups."""
