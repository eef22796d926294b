"""The commands that prepare an installation: `mqdlq init` and `mqdlq connection`."""
