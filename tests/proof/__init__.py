"""The proof that mqdlq works on a queue manager, and the table of queue managers it was run on."""
