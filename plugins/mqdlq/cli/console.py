"""The console that commands print tables to."""

from __future__ import annotations

import os
import sys

from rich.console import Console

_UNLIMITED = 10_000


def console() -> Console:
    """Return a console as wide as the terminal; lines for a pipe or a file are not wrapped.

    COLUMNS overrides both.
    """
    is_limited = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console() if is_limited else Console(width=_UNLIMITED)
