"""Restore discarded messages: select archived copies and put them on a queue."""
