"""Read one run for its page: messages, plan, outcomes."""
