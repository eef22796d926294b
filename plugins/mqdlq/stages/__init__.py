"""The stages of a run. Each stage takes ids, makes decisions, acts on them and returns counts."""
