"""The commands `mqdlq rules …`."""
