"""The revisions of the ledger's schema, in order; a released one never changes."""
