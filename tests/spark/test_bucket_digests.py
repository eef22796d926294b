"""Digests of buckets, as Spark's workers make them, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucket_digests import digests_if_sorted, digests_of_sorted
from mqdlq.plan import MESSAGES_TO_A_BUCKET

Row = tuple[int, bytes]
Digests = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def asked(digests: Digests, rows: list[Row], batch: int = 3) -> dict[int, tuple[str | None, int]]:
    """Return digest and number of rows by bucket, the rows given in batches of so many."""
    names = ["browse_seq", "content"]
    columns = [
        pa.array([row[0] for row in rows], pa.int64()),
        pa.array([row[1] for row in rows], pa.binary()),
    ]
    whole = pa.RecordBatch.from_arrays(columns, names)
    batches = [whole.slice(start, batch) for start in range(0, len(rows), batch)]
    (found,) = digests(iter(batches))
    return {row["bucket"]: (row["digest"], row["rows"]) for row in found.to_pylist()}


def expected(rows: list[Row]) -> dict[int, tuple[str | None, int]]:
    """Return the same, as the hash of a plan is defined."""
    buckets: dict[int, list[Row]] = {}
    for row in rows:
        buckets.setdefault(row[0] // MESSAGES_TO_A_BUCKET, []).append(row)
    return {
        number: (sha256(b"".join(content for _, content in sorted(held))).hexdigest(), len(held))
        for number, held in buckets.items()
    }


def spaced(seqs: Iterable[int]) -> list[Row]:
    """Return rows that fall into few buckets, several into each."""
    return [(seq * 1000, b"content of %d" % seq) for seq in seqs]


@settings(deadline=None)
@given(st.lists(st.integers(0, 40)), st.integers(1, 7))
def test_sorted_rows_are_digested_in_whatever_batches(seqs: list[int], batch: int) -> None:
    rows = sorted(spaced(seqs))

    assert asked(digests_of_sorted, rows, batch) == expected(rows)


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), unique=True), st.integers(1, 7))
def test_a_digest_is_given_only_where_browse_numbers_ascend(seqs: list[int], batch: int) -> None:
    rows = spaced(seqs)
    in_order = expected(rows)

    for number, (digest, count) in asked(digests_if_sorted, rows, batch).items():
        held = [seq for seq, _ in rows if seq // MESSAGES_TO_A_BUCKET == number]
        wanted = in_order[number][0] if held == sorted(held) else None
        assert (digest, count) == (wanted, in_order[number][1])


def test_equal_browse_numbers_are_in_no_order_that_is_known() -> None:
    rows = [(5, b"b"), (5, b"a"), (5000, b"c")]

    digests = asked(digests_if_sorted, rows)

    assert digests[0] == (None, 2)
    assert digests[1] == expected(rows)[1]


@pytest.mark.parametrize("digests", [digests_of_sorted, digests_if_sorted])
def test_no_rows_are_no_buckets(digests: Digests) -> None:
    assert asked(digests, []) == {}
