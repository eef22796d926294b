"""The runbook has an entry for every alert and every outcome."""

from __future__ import annotations

import pytest

from mqdlq import directories
from mqdlq.handlers.operation import Event
from mqdlq.model import Outcome

RUNBOOK = (directories.PROJECT / "docs" / "how-to" / "runbook.md").read_text(encoding="utf-8")


def entry(section: str, name: str) -> list[str]:
    """Return the cells of a row in one section of the runbook."""
    (text,) = (part for part in RUNBOOK.split("\n## ") if part.startswith(f"{section}\n"))
    (row,) = (line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
    return [cell.strip() for cell in row.strip("|").split("|")]


@pytest.mark.parametrize("event", Event)
def test_every_alert_has_an_entry_in_the_runbook(event: Event) -> None:
    assert all(entry("Alerts", event))


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_an_entry_in_the_runbook(outcome: Outcome) -> None:
    cells = entry("Outcomes", outcome)

    assert cells[1] == outcome.words
    assert all(cells)
