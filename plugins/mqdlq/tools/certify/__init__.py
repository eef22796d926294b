"""First contact with a queue manager: try on scratch queues what the handler relies on."""
