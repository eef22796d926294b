"""MQ headers as the queue manager reads, checks and writes them."""
