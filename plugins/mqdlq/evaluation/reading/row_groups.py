"""Divide a snapshot's row groups into tasks, and read the rows of a task.

A stretch is a range of browse numbers that starts and ends between buckets of the plan's hash.
Every bucket is then in one task, in order, so no rows are sorted or exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.lake.descriptions import FileDigest
from mqdlq.lake.files import Files, open_parquet
from mqdlq.lake.schema import HEADERS
from mqdlq.plan import MESSAGES_TO_A_BUCKET

ROWS_AT_ONCE: Final = 65_536
"""The approximate number of rows in a batch, which fits the processor's cache."""

_FILES: Final = 256
"""The most files whose footers the driver reads; with more files, it reads no footers."""


@dataclass(frozen=True, slots=True)
class Group:
    """A row group of a file, with its number of rows and its range of browse numbers."""

    file: str
    digest: FileDigest | None
    number: int
    rows: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rows of these groups with `browse_seq` in [start, end)."""

    start: int
    end: int
    groups: tuple[Group, ...]


def groups_in_order(headers: Files) -> list[Group] | None:
    """Return the row groups of these files in browse order, from the files' footers.

    Returns None if they overlap, as in files written by other programs, or have no statistics.
    """
    if len(headers) > _FILES:
        return None
    groups = []
    for location, digest in headers.items():
        with open_parquet(location, digest) as file:
            metadata = file.metadata
        place = metadata.schema.to_arrow_schema().names.index("browse_seq")
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            known = group.column(place).statistics
            if not group.num_rows:
                continue
            if known is None or not known.has_min_max:
                return None
            place_in_file = (number, group.num_rows, known.min, known.max)
            groups.append(Group(location, digest, *place_in_file))
    groups.sort(key=lambda group: group.first)
    ascend = all(one.last < other.first for one, other in pairwise(groups))
    return groups if ascend else None


def stretches(groups: Sequence[Group], rows: int) -> list[Stretch]:
    """Divide a snapshot into stretches of about this number of rows."""
    cuts: list[int] = []
    waiting = 0
    for group in groups:
        cut = group.first // MESSAGES_TO_A_BUCKET * MESSAGES_TO_A_BUCKET
        if waiting >= rows and cut > (cuts[-1] if cuts else groups[0].first):
            cuts.append(cut)
            waiting = 0
        waiting += group.rows
    starts = [groups[0].first, *cuts] if groups else []
    ends = [*cuts, groups[-1].last + 1] if groups else []
    return [
        Stretch(
            start,
            end,
            tuple(group for group in groups if group.last >= start and group.first < end),
        )
        for start, end in zip(starts, ends, strict=True)
    ]


def stretch_rows(
    stretch: Stretch, columns: Sequence[str], constants: dict[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stretch: these columns, and constant columns.

    Texts are Parquet's own dictionaries if available. No other column is read.
    """
    for of_file in groupby(stretch.groups, key=lambda group: (group.file, group.digest)):
        (location, digest), groups = of_file
        texts = [each for each in columns if pa.types.is_string(HEADERS.field(each).type)]
        with open_parquet(location, digest, read_dictionary=texts, pre_buffer=True) as file:
            for some in _batched(groups):
                rows = file.read_row_groups(
                    [group.number for group in some], columns=list(columns), use_threads=False
                )
                if some[0].first < stretch.start or some[-1].last >= stretch.end:
                    rows = rows.filter(_inside(stretch))
                for column, value in constants.items():
                    rows = rows.append_column(column, _repeated(value, rows.num_rows))
                yield from rows.unify_dictionaries().combine_chunks().to_batches()


def _batched(groups: Iterable[Group]) -> Iterator[list[Group]]:
    """Yield lists of adjacent groups that together fit one batch."""
    some: list[Group] = []
    for group in groups:
        if some and sum(each.rows for each in some) + group.rows > ROWS_AT_ONCE:
            yield some
            some = []
        some.append(group)
    yield some


def _inside(stretch: Stretch) -> pc.Expression:
    browse_seq = pc.field("browse_seq")
    return (browse_seq >= stretch.start) & (browse_seq < stretch.end)


def _repeated(value: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), [value])
