"""The second stage: take a snapshot of a run's queue by browsing it; no message is removed."""
