"""The page on where changes belong, and lists in the README, are as the code declares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqdlq.airflow.params import SCHEMAS
from mqdlq.handlers.operation import Event

ROOT = Path(__file__).parents[2]
CHANGING = (ROOT / "docs" / "contributing" / "changing.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = sorted(set(re.findall(r"`([\w./-]+/[\w.-]+\.\w+|README\.md)`", CHANGING)))


def test_the_page_leads_through_eight_changes() -> None:
    walks = CHANGING.split("\n## ")[1:]

    assert len(walks) == 8
    assert all("\n| `" in walk for walk in walks)


@pytest.mark.parametrize("file", FILES)
def test_every_file_that_the_page_names_is_there(file: str) -> None:
    assert (ROOT / file).is_file()


def test_the_readme_lists_every_alert_event() -> None:
    *first, last = (f"`{event}`" for event in Event)

    assert f"The events are {', '.join(first)} and {last};" in README


def test_the_readme_lists_every_parameter_of_a_run() -> None:
    (line,) = (line for line in README.splitlines() if line.startswith("The params of a run"))

    assert set(re.findall(r"`(\w+)`", line)) == set(SCHEMAS)
