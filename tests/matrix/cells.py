"""Choose the versions that are tested together, and keep the results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any, Final, NamedTuple

OFFICIAL: Final = "official"
RECREATED: Final = "recreated"
"""Constraints of the packages that were the newest on the day after the Airflow release."""

RESULTS: Final = Path(__file__).with_name("results.json")

VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "python": ("3.13", "3.12", "3.11"),
    "airflow": ("3.3.2",),
    "spark": ("4.3.0", "4.2.0", "4.1.3", "4.0.4"),
    "client": ("ibmmq", "pymqi"),
    "provider": ("0.1.0", "none"),
}
"""The versions on each axis, newest first: the last release of each minor version.

`provider` is Airflow's own provider for IBM MQ, which may be installed beside mqdlq.
"""

RELEASED: Final[Mapping[str, str]] = {
    "3.3.2": "2026-09-18",
    "3.4.0b2": "2026-10-21",
}
"""The day after each Airflow release. Packages uploaded later are not in its constraints."""


class Cell(NamedTuple):
    """One version on each axis."""

    python: str
    airflow: str
    spark: str
    client: str
    provider: str

    def __str__(self) -> str:
        versions = f"python{self.python}-airflow{self.airflow}-spark{self.spark}"
        return f"{versions}-{self.client}-provider{self.provider}"


AHEAD: Final = (Cell("3.13", "3.4.0b2", "4.3.0", "ibmmq", "0.1.0"),)
"""Cells with a version that is not released yet: what they show is not a promise."""

NEXT: Final = "next"
"""The name of the cell with the newest versions that the registry has, pre-releases included."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one cell.

    `failed_at` is the step that failed, or empty; `seconds` is the duration; `wheel` is the
    beginning of the wheel's SHA-256; `proof` has what passed of `make prove`; `tests` is the
    number of fast tests that passed, or empty if they were not run.
    """

    cell: Cell
    failed_at: str
    date: str
    seconds: int
    wheel: str
    constraints: str
    packages: dict[str, str]
    proof: str
    tests: str


def pairs_of(cell: Cell) -> set[tuple[tuple[str, str], tuple[str, str]]]:
    """Return each pair of two axes' versions that occurs in the cell."""
    return set(combinations(zip(Cell._fields, cell, strict=True), 2))


def covering_cells(versions: Mapping[str, tuple[str, ...]] = VERSIONS) -> list[Cell]:
    """Return few cells in which each version of an axis meets each version of any other axis.

    Each next cell is the first one with the most pairs that no earlier cell has.
    """
    possible = [Cell(*chosen) for chosen in product(*(versions[axis] for axis in Cell._fields))]
    uncovered = set().union(*map(pairs_of, possible))
    chosen = []
    while uncovered:
        best = max(possible, key=lambda cell: len(pairs_of(cell) & uncovered))
        chosen.append(best)
        uncovered -= pairs_of(best)
    return chosen


def select(parts: Iterable[str]) -> list[Cell]:
    """Return the cells whose name has one of the parts, all covering cells without parts.

    Raises SystemExit for a part that no cell's name has.
    """
    cells = [*covering_cells(), *AHEAD]
    parts = [*parts]
    for part in parts:
        if not any(part in str(cell) for cell in cells):
            names = "\n".join(map(str, cells))
            raise SystemExit(
                f"CELLS: no cell has {part} in its name; these are the cells:\n{names}"
            )
    if not parts:
        return covering_cells()
    return [cell for cell in cells if any(part in str(cell) for part in parts)]


def read_results(file: Path = RESULTS) -> dict[Cell, Result]:
    """Return the recorded results by cell."""
    rows = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    results = [Result(**{**row, "cell": Cell(**row["cell"])}) for row in rows]
    return {result.cell: result for result in results}


def record(result: Result, file: Path = RESULTS) -> None:
    """Write a result beside those of the other cells, in the order of the cells."""
    results = {**read_results(file), result.cell: result}
    rows: list[dict[str, Any]] = [
        {**asdict(results[cell]), "cell": cell._asdict()} for cell in sorted(results, reverse=True)
    ]
    file.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def without_spark(constraints: str) -> str:
    """Return the constraints without those of pyspark: the cell names its version."""
    lines = constraints.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("pyspark==", "pyspark-client==")))


def is_done(result: Result | None, wheel: str, *, with_tests: bool) -> bool:
    """Return whether a cell has passed with this wheel, so that it need not run again."""
    if result is None or result.failed_at or result.wheel != wheel:
        return False
    return bool(result.tests) or not with_tests


def supported(axis: str, results: Mapping[Cell, Result]) -> tuple[str, ...]:
    """Return the versions of an axis that passed wherever they were run, oldest first."""
    by_version = {
        version: [results[cell] for cell in results if getattr(cell, axis) == version]
        for version in reversed(VERSIONS[axis])
    }
    return tuple(
        version
        for version, found in by_version.items()
        if found and not any(result.failed_at for result in found)
    )


def outcome(result: Result | None) -> str:
    """Return a cell's result in a few words."""
    if result is None:
        return "not run"
    if result.failed_at:
        return f"failed: {result.failed_at}"
    return "passed" if result.tests else "passed, without the fast tests"
