"""Select messages of a snapshot: those that meet a condition, and those that its run is for."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.lake.files import read_batches
from mqdlq.lake.row_masks import KeySet, Mask, keys_of
from mqdlq.lake.snapshots import Snapshot, settled_rows, snapshot_batches

# Find the messages of a snapshot that meet a condition.

_ROWS: Final = 65_536


def rows_that_meet(directory: str, mask: Mask, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Yield these columns of the messages of a snapshot that meet a condition, in batches.

    The rows of settled messages come last, from the snapshots that have their full rows, and have 0
    as `browse_seq`. Raises `LakeError`.
    """
    read = sorted({"message_key", *mask.columns, *columns})
    for batch in read_batches(Snapshot.at(directory).headers, read, rows=_ROWS):
        yield batch.filter(mask.rows(batch))
    settled: dict[str, list[npt.NDArray[np.bytes_]]] = {}
    for batch in settled_rows(directory, ["message_key", "snapshot_id"]):
        names = batch.column("snapshot_id")
        for name in names.unique().to_pylist():
            own = batch.filter(pc.equal(names, name))
            settled.setdefault(name, []).append(keys_of(own.column("message_key")))
    siblings = directory.rstrip("/").rsplit("/", 1)[0]
    for name, parts in sorted(settled.items()):
        wanted = KeySet(parts)
        is_new = np.ones(len(wanted), bool)
        for batch in snapshot_batches(f"{siblings}/{name}", read):
            # Equal messages have equal rows, so one row stands for all of them.
            places, first = np.unique(
                wanted.find(keys_of(batch.column("message_key"))), return_index=True
            )
            is_own = (places >= 0) & is_new[places]
            places, first = places[is_own], first[is_own]
            is_new[places] = False
            rows = batch.take(pa.array(np.repeat(first, wanted.numbers[places])))
            if "browse_seq" in read:
                none = pa.array(np.zeros(len(rows), np.int64))
                rows = rows.set_column(read.index("browse_seq"), "browse_seq", none)
            yield rows.filter(mask.rows(rows))


# The messages that the run of a snapshot is for.


class Chosen:
    """The rows of a snapshot that its run is for; each row takes a byte, so workers may have it."""

    def __init__(self, browse_seqs: npt.NDArray[np.int64]) -> None:
        self._is_chosen = np.zeros(int(browse_seqs.max(initial=0)) + 2, bool)
        self._is_chosen[browse_seqs] = True

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_chosen))

    def rows(self, batch: pa.RecordBatch, *, others: bool = False) -> pa.RecordBatch:
        """Return the chosen rows of a batch, or the others; the batch has their `browse_seq`."""
        return batch.filter(pa.array(self.are(batch.column("browse_seq").to_numpy()) ^ others))

    def are(self, browse_seqs: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        return self._is_chosen[np.minimum(browse_seqs, len(self._is_chosen) - 1)]


def chosen_of(snapshot: Snapshot) -> Chosen | None:
    """Return the rows that the run of a snapshot is for, None if it is for all messages.

    A snapshot that was put together, or is of an earlier version, has the keys of its messages in
    its manifest only.
    """
    if files := snapshot.chosen:
        parts = [one.column("browse_seq").to_numpy() for one in read_batches(files)]
    elif keys := snapshot.manifest.message_keys:
        named = pa.array(map(bytes.fromhex, keys), pa.binary())
        rows = read_batches(snapshot.headers, ["browse_seq", "message_key"])
        found = (row.filter(pc.is_in(row.column("message_key"), value_set=named)) for row in rows)
        parts = [row.column("browse_seq").to_numpy() for row in found]
    else:
        return None
    return Chosen(np.concatenate([np.empty(0, np.int64), *parts]))


def chosen_batches(
    directory: str, columns: Sequence[str], *, others: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield these columns of the full rows of a snapshot that its run is for, in browse order.

    With `others`, yield those of the messages that it is not for.
    """
    snapshot = Snapshot.at(directory)
    chosen = chosen_of(snapshot)
    for batch in read_batches(snapshot.headers, sorted({"browse_seq", *columns})):
        if chosen is not None:
            yield chosen.rows(batch, others=others)
        elif not others:
            yield batch
