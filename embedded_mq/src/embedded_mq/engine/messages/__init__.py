"""Put, get, browse and select messages, with their properties, reports and groups."""
