"""Tables of docs/reference/versions.md, from the results of `make matrix`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.matrix.cells import (
    AHEAD,
    covering_cells,
    outcome,
    read_results,
    supported,
)
from tests.support.docs.tables import table

_TITLES: Final = {
    "python": "Python",
    "airflow": "Airflow",
    "spark": "Spark (`pyspark`)",
    "client": "MQ client",
    "provider": "Airflow's provider for IBM MQ",
}


def versions() -> str:
    """Return a table of the supported versions."""
    return table(("", "versions"), _summary())


def cells() -> str:
    """Return a table of the cells and their results."""
    axes = ("Python", "Airflow", "Spark", "client", "provider")
    return table((*axes, "result", "proof", "fast tests", "date"), _rows())


def _summary() -> Iterator[tuple[str, str]]:
    results = read_results()
    for axis, title in _TITLES.items():
        yield title, ", ".join(supported(axis, results)) or "none yet"


def _rows() -> Iterator[tuple[str, ...]]:
    results = read_results()
    covering = covering_cells()
    others = [cell for cell in results if cell not in {*covering, *AHEAD}]
    for cell in (*covering, *others, *AHEAD):
        result = results.get(cell)
        found = (result.proof, result.tests, result.date) if result else ("", "", "")
        yield (*cell, outcome(result), *found)
