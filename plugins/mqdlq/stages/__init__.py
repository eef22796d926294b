"""The stages of a run: each takes ids, decides, acts and returns counts."""
