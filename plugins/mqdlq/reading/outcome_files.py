"""Outcomes as files: those of a run to download, and those of all runs for the history.

Spark has no driver for the ledger's database. It reads Parquet, which each export replaces.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.lake.storage import make_directory, new_file
from mqdlq.ledger import Ledger
from mqdlq.reading.exports import ROWS, Export, schema_of
from mqdlq.reading.run_messages import Message, MessageList

SCHEMA: Final = schema_of(
    *("run_id", "browse_seq", "message_key", "msg_id", "put_appl_name", "user_identifier"),
    *("format", "total_length", "reason", "reason_text", "dest_q_name", "dest_q_mgr_name"),
    *("since", "expires_at", "outcome", "why", "why_code", "rule", "rule_line", "action"),
    *("target_q", "target_q_mgr", "attempts", "at", "is_settled", "is_known_since"),
)
"""The columns of every form: a message with its outcome, the run, and the reason in words."""


def outcomes_of(name: str, run_id: str, messages: MessageList, chosen: Sequence[int]) -> Export:
    """Return the outcomes of these messages of a run, by their browse_seqs."""
    return Export(name, SCHEMA, _records(run_id, messages, chosen))


def _records(
    run_id: str, messages: MessageList, browse_seqs: Sequence[int]
) -> Iterator[dict[str, Any]]:
    for start in range(0, len(browse_seqs), ROWS):
        for row in messages.rows(browse_seqs[start : start + ROWS]):
            yield _record(run_id, row)


_UNDECIDED: Final = {
    "outcome": None,
    "rule": 0,
    "action": "",
    "target_q": "",
    "target_q_mgr": "",
    "at": None,
}
"""What a message without an outcome has in place of it."""


def _record(run_id: str, message: Message) -> dict[str, Any]:
    fact = message.fact
    found = {
        **{name: getattr(fact, name, empty) for name, empty in _UNDECIDED.items()},
        "run_id": run_id,
        "attempts": message.made,
        "is_settled": message.was_left_before,
    }
    names = (name for name in SCHEMA.names if name not in found)
    return found | {name: getattr(message, name) for name in names}


# The outcomes of all runs.

OUTCOMES: Final = schema_of(
    *("run_id", "queue_manager", "queue", "message_key", "residence", "rules_digest", "dry_run"),
    *("rule", "action", "outcome", "at"),
    message_key=pa.binary(),
)
PRUNED: Final = schema_of(
    *("run_id", "queue_manager", "queue", "rules_digest", "dry_run", "rule", "action", "outcome"),
    "messages",
)


def export_outcomes(ledger: Ledger, directory: str) -> int:
    """Write all outcomes to `outcomes.parquet` in a directory; return how many there are.

    An outcome that a later run found out replaces the booked one. The numbers of pruned runs are
    written to `pruned.parquet` first: a run that is pruned in between is missing, not counted
    twice. The rows are read and written a few thousand at a time; each file appears whole or not
    at all.
    """
    make_directory(directory)
    totals = ledger.prunes.history(PRUNED.names, ROWS)
    _write_list(f"{directory}/pruned.parquet", PRUNED, totals)
    rows = ledger.outcomes.history(OUTCOMES.names, ROWS)
    return _write_list(f"{directory}/outcomes.parquet", OUTCOMES, rows)


def _write_list(place: str, schema: pa.Schema, batches: Iterable[Sequence[Any]]) -> int:
    rows = 0
    with new_file(place) as file, pq.ParquetWriter(file, schema) as parquet:
        for batch in batches:
            columns = dict(zip(schema.names, zip(*batch, strict=True), strict=True))
            table = pa.Table.from_pydict(columns, schema=schema)
            parquet.write_table(table)
            rows += table.num_rows
    return rows
