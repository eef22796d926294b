"""Filter the rows of one snapshot by columns, and read single rows, without reading all of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.lake.files import Files, read_batches
from mqdlq.lake.snapshots import Snapshot

_KEY_DIGITS: Final = 64
_MSG_ID_DIGITS: Final = 48
_ROWS: Final = 65_536
_AT: Final = " @ "


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The rows of a snapshot to select; an empty field narrows nothing.

    `message_key` and `msg_id` are the first hexadecimal digits. `application` is a part of
    PutApplName, `destination` a part of the queue or of the queue manager in the MQDLH, or
    ``QUEUE @ QUEUE_MANAGER`` with a part of each; upper and lower case are the same. A message was
    dead-lettered or, without that time, put at `since` or later, and before `until`.
    """

    message_key: str = ""
    msg_id: str = ""
    application: str = ""
    destination: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it narrows nothing."""
        return self == RowFilter()


class FilteredSnapshot:
    """The rows of a finished snapshot that a filter selects: full rows, and settled messages."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Read a snapshot."""
        self._snapshot = snapshot

    def full_rows(self, chosen: RowFilter, among: Collection[bytes] = ()) -> set[int]:
        """Return the browse_seqs of the selected full rows, and with `among` of these keys only."""
        found: set[int] = set()
        for batch in _matching(self._snapshot.headers, chosen):
            selected = batch
            if among:
                keys = pa.array(list(among), pa.binary())
                selected = batch.filter(pc.is_in(batch.column("message_key"), keys))
            found.update(selected.column("browse_seq").to_pylist())
        return found

    def settled(self, chosen: RowFilter) -> Iterator[dict[str, Any]]:
        """Yield the compact rows of the selected settled messages, in browse order.

        Their full rows are in earlier snapshots, which are read if the filter is not empty. Raises
        `LakeError` if such a snapshot cannot be read.
        """
        if not self._snapshot.manifest.settled:
            return
        matching: dict[str, set[bytes]] = {}
        for batch in read_batches(self._snapshot.settled, rows=_ROWS):
            for row in batch.to_pylist():
                if not chosen.is_empty:
                    name = row["snapshot_id"]
                    if name not in matching:
                        matching[name] = self._keys_in(name, chosen)
                    if row["message_key"] not in matching[name]:
                        continue
                yield row

    def rows_at(self, places: Sequence[int], columns: Sequence[str]) -> dict[int, dict[str, Any]]:
        """Return the rows of these messages by browse_seq; `places` are in order.

        A settled message has the columns of its full row and `settled`, its compact row.
        """
        wanted = [*dict.fromkeys(("browse_seq", "message_key", *columns))]
        found = {row["browse_seq"]: row for row in _rows_at(self._snapshot.headers, places, wanted)}
        if self._snapshot.manifest.settled:
            left = [place for place in places if place not in found]
            compact = _rows_at(self._snapshot.settled, left, None) if left else ()
            found |= self._full_rows_of(list(compact), wanted)
        return found

    def _full_rows_of(
        self, compact: Sequence[dict[str, Any]], columns: Sequence[str]
    ) -> dict[int, dict[str, Any]]:
        by_snapshot: dict[str, set[bytes]] = {}
        for row in compact:
            by_snapshot.setdefault(row["snapshot_id"], set()).add(row["message_key"])
        full: dict[bytes, dict[str, Any]] = {}
        for name, keys in by_snapshot.items():
            wanted = pa.array(sorted(keys), pa.binary())
            for batch in read_batches(self._sibling(name).headers, columns, rows=_ROWS):
                is_wanted = pc.is_in(batch.column("message_key"), wanted)
                for row in batch.filter(is_wanted).to_pylist():
                    full[row["message_key"]] = row
        return {
            row["browse_seq"]: {
                **full.get(row["message_key"], {"message_key": row["message_key"]}),
                "browse_seq": row["browse_seq"],
                "settled": row,
            }
            for row in compact
        }

    def _keys_in(self, snapshot_id: str, chosen: RowFilter) -> set[bytes]:
        found: set[bytes] = set()
        for batch in _matching(self._sibling(snapshot_id).headers, chosen):
            found.update(batch.column("message_key").to_pylist())
        return found

    def _sibling(self, snapshot_id: str) -> Snapshot:
        return Snapshot.at(f"{self._snapshot.directory.rsplit('/', 1)[0]}/{snapshot_id}")


def _matching(files: Files, chosen: RowFilter) -> Iterator[pa.RecordBatch]:
    """Yield browse_seq and message_key of the rows that a filter selects, in browse order."""
    columns = ["browse_seq", "message_key"]
    columns += ["msg_id"] if chosen.msg_id else []
    columns += ["put_appl_name"] if chosen.application else []
    columns += ["dlh_dest_q_name", "dlh_dest_q_mgr_name"] if chosen.destination else []
    columns += ["dead_lettered_at", "put_at"] if chosen.since or chosen.until else []
    for batch in read_batches(files, columns, rows=_ROWS):
        selected = batch
        masks = list(_conditions(batch, chosen))
        if masks:
            mask = reduce(pc.and_kleene, masks)
            selected = batch.filter(pc.fill_null(mask, fill_value=False))
        yield selected.select(["browse_seq", "message_key"])


def _conditions(batch: pa.RecordBatch, chosen: RowFilter) -> Iterator[Any]:
    if chosen.message_key:
        yield _begins(batch.column("message_key"), chosen.message_key, _KEY_DIGITS)
    if chosen.msg_id:
        yield _begins(batch.column("msg_id"), chosen.msg_id, _MSG_ID_DIGITS)
    if chosen.application:
        yield _contains(batch.column("put_appl_name"), chosen.application)
    if chosen.destination:
        yield _is_for(batch, chosen.destination)
    if chosen.since or chosen.until:
        at = pc.coalesce(batch.column("dead_lettered_at"), batch.column("put_at"))
        if chosen.since:
            yield pc.greater_equal(at, pa.scalar(chosen.since, at.type))
        if chosen.until:
            yield pc.less(at, pa.scalar(chosen.until, at.type))


def _begins(column: Any, digits: str, length: int) -> Any:
    """Compare the beginning of binary values of a length with hexadecimal digits."""
    first = bytes.fromhex(digits[:length].ljust(length, "0"))
    last = bytes.fromhex(digits[:length].ljust(length, "f"))
    return pc.and_(pc.greater_equal(column, first), pc.less_equal(column, last))


def _contains(column: Any, part: str) -> Any:
    return pc.match_substring(column, part, ignore_case=True)


def _is_for(batch: pa.RecordBatch, destination: str) -> Any:
    queue, queue_manager = batch.column("dlh_dest_q_name"), batch.column("dlh_dest_q_mgr_name")
    if _AT in destination:
        of_queue, _, of_manager = destination.partition(_AT)
        return pc.and_(_contains(queue, of_queue), _contains(queue_manager, of_manager))
    return pc.or_(_contains(queue, destination), _contains(queue_manager, destination))


def _rows_at(
    files: Files, places: Sequence[int], columns: Sequence[str] | None
) -> Iterator[dict[str, Any]]:
    wanted = pa.array(places, pa.int64())
    for batch in read_batches(files, columns, rows=_ROWS, within=(places[0], places[-1])):
        yield from batch.filter(pc.is_in(batch.column("browse_seq"), wanted)).to_pylist()
