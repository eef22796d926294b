"""Read a run for people who wait: counts by SQL, messages page by page, downloads as a stream."""
