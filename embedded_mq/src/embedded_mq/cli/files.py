"""Read the files of commands; - is standard input."""

import sys
from pathlib import Path

from embedded_mq.errors import EmbeddedQueueManagerError


def read(path: Path) -> bytes:
    """Return the content of a file."""
    return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()


def name_of(path: Path) -> str:
    """Return a file's name for an error."""
    return "standard input" if str(path) == "-" else str(path)


def read_text(path: Path) -> str:
    """Return MQSC commands; the error for bytes that are not UTF-8 names their line."""
    try:
        return read(path).decode()
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise EmbeddedQueueManagerError(
            f"{name_of(path)}, line {line}: byte {error.object[error.start]:#04x} is not UTF-8;"
            " save the MQSC commands in UTF-8"
        ) from None
