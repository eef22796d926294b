"""The commands `mqdlq snapshots …`."""
