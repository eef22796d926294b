"""Where the project keeps its state: environment variables in, directories out."""

from __future__ import annotations

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def home() -> Path:
    """Return the state directory, MQDLQ_HOME or `var/` beside the code; it is not created here."""
    return Path(os.environ.get("MQDLQ_HOME") or PROJECT / "var")


def make_private_directory(directory: Path) -> None:
    """Create a directory and those above it, where they are missing, for their owner alone."""
    for missing in (*reversed(directory.parents), directory):
        missing.mkdir(mode=0o700, exist_ok=True)


def shown(path: Path | str) -> str:
    """Return a path as a person here would write it: relative where it is below this directory."""
    place = Path(path)
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else str(path)


def queue_managers() -> Path:
    """Return the directory of the embedded queue managers, one subdirectory each."""
    return home() / "queue_managers"


def lake() -> str:
    """Return the lake's location, an fsspec URL or a path (MQDLQ_LAKE overrides it)."""
    return os.environ.get("MQDLQ_LAKE") or str(home() / "lake")


def rules_directory() -> Path:
    """Return the directory of handlers and rules tables (MQDLQ_RULES_DIR overrides it)."""
    return Path(os.environ.get("MQDLQ_RULES_DIR") or PROJECT / "include" / "rules")


def ledger_url() -> str:
    """Return the ledger's database as SQLAlchemy names it; an SQLite file in the state directory.

    MQDLQ_LEDGER_URL overrides it. As it may hold a password, it may also be the one line of a file,
    which MQDLQ_LEDGER_URL_FILE names.
    """
    file = os.environ.get("MQDLQ_LEDGER_URL_FILE")
    told = Path(file).read_text(encoding="utf-8").strip() if file else ""
    return os.environ.get("MQDLQ_LEDGER_URL") or told or f"sqlite:///{home() / 'ledger.db'}"
