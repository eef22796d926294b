"""The runbook has an entry for every alert, and for every failure text of the workflow."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqdlq import directories
from mqdlq.handlers.operation import Event
from mqdlq.ledger import access
from mqdlq.model import Outcome

RUNBOOK = (directories.PROJECT / "docs" / "how-to" / "runbook.md").read_text(encoding="utf-8")
PACKAGE = directories.PROJECT / "plugins" / "mqdlq"
PARTS = (
    "airflow",
    "local",
    "stages",
    "ledger",
    "lake/archive.py",
    "directories.py",
)
# Commands report the errors of these in their own sentence.
OF_COMMANDS = (
    "stages/rule_suggestions.py",
    "stages/report/",
    "stages/shadow.py",
    "stages/snapshot/",
    "local/demo.py",
    "local/spark_cluster.py",
)


def text_of(node: ast.expr) -> str:
    """Return a literal text, with … for values of the run time, or "" for another value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "…" for part in node.values)
    return ""


def failures() -> Iterator[str]:
    """Yield the texts with which the workflow's tasks and commands fail."""
    for part in PARTS:
        place = PACKAGE / part
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            if not str(file.relative_to(PACKAGE)).startswith(OF_COMMANDS):
                yield from _failures_in(file)


def _failures_in(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            text = text_of(node.exc.args[0]).replace("`", "")
            if text.strip(" …;:,.") and "airflow db migrate" not in text:
                yield text


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


@pytest.mark.parametrize("text", sorted(set(failures())))
def test_every_failure_has_an_entry_in_the_runbook(text: str) -> None:
    rows = [line for line in RUNBOOK.splitlines() if f"`{text}`" in line]

    assert rows, f"docs/how-to/runbook.md has no entry for: {text}"
    assert all(cell.strip() for cell in rows[0].strip("|").split("|"))


@pytest.mark.parametrize("remedy", sorted(access.remedies()))
def test_every_fault_of_the_ledger_has_an_entry_in_the_runbook(remedy: str) -> None:
    assert f"; {remedy.format(user='…')}`" in RUNBOOK


def test_the_search_for_failure_texts_finds_some() -> None:
    assert any(text.startswith("run … has no accepted plan to execute") for text in failures())
