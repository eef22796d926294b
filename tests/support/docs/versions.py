"""Write docs/reference/versions.md from the results of `make matrix`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.matrix.cells import (
    AHEAD,
    OFFICIAL,
    covering_cells,
    outcome,
    read_results,
    supported,
)
from tests.support.docs.tables import table

_HEAD = """\
# Supported versions

This page is for people who install mqdlq into their Airflow.
The following versions passed together wherever `make matrix` ran them:

"""
_TITLES: Final = {
    "python": "Python",
    "airflow": "Airflow",
    "spark": "Spark (`pyspark`)",
    "client": "MQ client",
}
_CELLS = """
Other patch releases of these minor versions should work, but were not run.
Spark needs Java 17 or newer.

## Tested cells

A cell is one version of each. The cells cover every pair: each version of one column occurs in one
row with each version of every other column. The last row has a version that is not released yet.

"""
_STEPS = """
In each cell, `make matrix` does the following:

1. It installs the wheel with the extras `spark`, `s3`, `postgres` and `embedded` into an empty
   environment, together with Airflow and under the constraints of that Airflow version.
2. It parses a DAG file of three lines. A warning that mqdlq causes is a failure.
3. It handles the demo's dead-letter queue in one DAG run (`mqdlq run demo`). The cell's MQ client
   connects to the embedded queue manager. The report's account must add up.
4. It runs the fast tests (`make test-fast`). They import the package from the checkout, which is
   the source of the wheel.

`make matrix CELLS=spark4.1` runs the cells with this text in their names.

## Constraints

"""
_RECREATED = """\
Airflow's official constraints files could not be downloaded where these cells ran. The constraints
were recreated: the newest version of each dependency of Airflow and its Spark provider on the day
after the Airflow release. Where the official files can be downloaded, name them:

```text
make matrix CONSTRAINTS='https://raw.githubusercontent.com/apache/airflow/constraints-{airflow}/constraints-{python}.txt'
```

"""
_OFFICIAL = """\
The constraints are Airflow's official constraints files.
"""
_REST = """\
The version of Spark is the cell's, not that of the constraints. If the Spark provider needs
`pyspark-client`, install the same version of it as of `pyspark`: both install files into one
directory. The table has the newest versions that both have.
"""


def document() -> str:
    """Return the page."""
    results = read_results()
    constraints = {result.constraints for result in results.values()}
    return "".join(
        (
            _HEAD,
            table(("", "versions"), _summary()),
            _CELLS,
            table(
                ("Python", "Airflow", "Spark", "client", "result", "fast tests", "date"), _rows()
            ),
            _STEPS,
            _OFFICIAL if constraints == {OFFICIAL} else _RECREATED,
            _REST,
        )
    )


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
        yield (*cell, outcome(result), *((result.tests, result.date) if result else ("", "")))
