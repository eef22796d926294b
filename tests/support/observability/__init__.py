"""The files of deploy/observability, and programs that read them."""
