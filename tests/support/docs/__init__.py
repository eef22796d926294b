"""The documentation: its site, its generated pages, and the code in it."""
