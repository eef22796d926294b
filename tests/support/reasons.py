"""Reword every reason, to find out what depends on words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from string import Formatter

from mqdlq.reasons import Why


def fields_of(template: str) -> set[str]:
    """Return the names of the values that a template takes."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


@contextmanager
def reworded() -> Iterator[None]:
    """Give each reason other words, which have the same values."""
    before = {code: code.template for code in Why}
    try:
        for place, code in enumerate(Why):
            values = " ".join(f"{{{name}}}" for name in code.names)
            code.template = f"Grund {place}: {values}"
        yield
    finally:
        for code, template in before.items():
            code.template = template
