"""Print tables."""

import os
import sys
from collections.abc import Collection, Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

_UNLIMITED = 10_000


def print_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str]
) -> None:
    """Print rows under their headings; columns in `right` are aligned to the right.

    The table is as wide as the terminal; lines for a pipe or a file are not wrapped. COLUMNS
    overrides both.
    """
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    is_limited = sys.stdout.isatty() or "COLUMNS" in os.environ
    (Console() if is_limited else Console(width=_UNLIMITED)).print(table)
