"""Export the ledger's outcomes as a Parquet file for the history.

Spark has no driver for the ledger's database. It reads this file, which each export replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.lake.storage import make_directory, new_file
from mqdlq.ledger import HistoryRow, HistoryTotal, Ledger

_ROWS: Final = 10_000
_UTC: Final = pa.timestamp("us", tz="UTC")
OUTCOMES: Final = pa.schema(
    [
        ("run_id", pa.string()),
        ("queue_manager", pa.string()),
        ("queue", pa.string()),
        ("message_key", pa.binary()),
        ("residence", pa.int32()),
        ("rules_digest", pa.string()),
        ("dry_run", pa.bool_()),
        ("rule", pa.int32()),
        ("action", pa.string()),
        ("outcome", pa.string()),
        ("at", _UTC),
    ]
)
PRUNED: Final = pa.schema(
    [
        ("run_id", pa.string()),
        ("queue_manager", pa.string()),
        ("queue", pa.string()),
        ("rules_digest", pa.string()),
        ("dry_run", pa.bool_()),
        ("rule", pa.int32()),
        ("action", pa.string()),
        ("outcome", pa.string()),
        ("messages", pa.int64()),
    ]
)


def export_outcomes(ledger: Ledger, directory: str) -> int:
    """Write all outcomes to `outcomes.parquet` in a directory; return how many there are.

    An outcome that a later run found out replaces the booked one. The numbers of pruned runs are
    written to `pruned.parquet` first: a run that is pruned in between is missing, not counted
    twice. The rows are read and written a few thousand at a time; each file appears whole or not
    at all.
    """
    make_directory(directory)
    _write(
        f"{directory}/pruned.parquet", PRUNED, HistoryTotal._fields, ledger.prunes.history(_ROWS)
    )
    rows = ledger.outcomes.history(_ROWS)
    return _write(f"{directory}/outcomes.parquet", OUTCOMES, HistoryRow._fields, rows)


def _write(
    place: str, schema: pa.Schema, names: tuple[str, ...], batches: Iterable[Sequence[Any]]
) -> int:
    rows = 0
    with new_file(place) as file, pq.ParquetWriter(file, schema) as parquet:
        for batch in batches:
            columns = dict(zip(names, zip(*batch, strict=True), strict=True))
            table = pa.Table.from_pydict(columns, schema=schema)
            parquet.write_table(table)
            rows += table.num_rows
    return rows
