"""The commands that show single messages: `mqdlq explain` and `mqdlq decode`."""
