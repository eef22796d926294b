"""EBCDIC code pages that Python lacks.

`ebcdic_tables.txt` in this directory has a line for each: the CCSID, then four hexadecimal digits
for the character of every byte, FFFD for a byte that is not a character by itself.
``python -m tests.support.wire.ebcdic_tables`` writes it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

TABLES_FILE: Final = Path(__file__).with_name("ebcdic_tables.txt")
UNDEFINED: Final = "\ufffd"


@cache
def load_tables() -> dict[int, str]:
    """Return the tables of the file by CCSID; a byte without a character is U+FFFD."""
    rows = (line.split() for line in TABLES_FILE.read_text(encoding="ascii").splitlines())
    return {int(ccsid): bytes.fromhex(digits).decode("utf-16-be") for ccsid, digits in rows}
