"""Repositories that only read: the queries of the operator's page, one module for each subject."""
