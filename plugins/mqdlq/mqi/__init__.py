"""Access to IBM MQ through its Python clients: connections, browse cursors, units of work."""
