"""Read, check and write MQ headers."""
