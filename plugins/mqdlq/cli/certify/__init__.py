"""The command `mqdlq certify` and its report."""
