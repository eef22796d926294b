"""The catalogue of errors: what each error id means, and what to do."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PREFIX = "MQDLQ-"


@dataclass(frozen=True, slots=True)
class Entry:
    """An error's entry in the catalogue.

    `text` has … for names and numbers; `look` and `do` are Markdown, with links from
    docs/reference.
    """

    error_id: str
    text: str
    look: str
    do: str

    @property
    def area(self) -> str:
        """The digit of the id's hundreds, which is the key of its area."""
        return self.error_id.removeprefix(PREFIX)[0]

    @property
    def anchor(self) -> str:
        """The anchor of the entry in docs/reference/errors.md."""
        return self.error_id.lower()


@cache
def _catalogue() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("errors.toml").read_text(encoding="utf-8"))


def entries() -> dict[str, Entry]:
    """Return the entries by their ids, in the order of the catalogue."""
    found = {key: value for key, value in _catalogue().items() if key.startswith(PREFIX)}
    return {error_id: Entry(error_id, **entry) for error_id, entry in found.items()}


def areas() -> dict[str, str]:
    """Return the titles of the areas by the digit of their hundreds."""
    return dict(_catalogue()["areas"])


def retired() -> tuple[str, ...]:
    """Return the ids of errors that no longer exist."""
    return tuple(_catalogue()["retired"])
