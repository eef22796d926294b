"""Export the ledger's outcomes as a Parquet file for the history.

Spark has no driver for the ledger's database. It reads this file, which each export replaces.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.lake.storage import make_directory, new_file
from mqdlq.ledger import HistoryRow, Ledger

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


def export_outcomes(ledger: Ledger, directory: str) -> int:
    """Write all outcomes to `outcomes.parquet` in a directory; return how many there are.

    An outcome that a later run found out replaces the booked one.
    The rows are read and written a few thousand at a time; the file appears whole or not at all.
    """
    make_directory(directory)
    rows = 0
    with (
        new_file(f"{directory}/outcomes.parquet") as file,
        pq.ParquetWriter(file, OUTCOMES) as parquet,
    ):
        for batch in ledger.outcomes.history(_ROWS):
            columns = dict(zip(HistoryRow._fields, zip(*batch, strict=True), strict=True))
            table = pa.Table.from_pydict(columns, schema=OUTCOMES)
            parquet.write_table(table)
            rows += table.num_rows
    return rows
