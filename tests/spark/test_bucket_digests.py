"""Digests of buckets, as Spark's workers make them, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from mqdlq.lake.plans import Buckets
from mqdlq.plan import MESSAGES_TO_A_BUCKET

Row = tuple[int, bytes]


def asked(rows: list[Row], batch: int = 3, *, is_sorted: bool = False) -> dict[int, str | None]:
    """Return the digest of each bucket, the rows given in batches of so many."""
    seqs = pa.array([row[0] for row in rows], pa.int64())
    contents = pa.array([row[1] for row in rows], pa.binary())
    buckets = Buckets(sorted=is_sorted)
    for start in range(0, len(rows), batch):
        buckets.add(seqs.slice(start, batch), contents.slice(start, batch))
    return buckets.digests()


def expected(rows: list[Row]) -> dict[int, str | None]:
    """Return the same, as the hash of a plan is defined."""
    buckets: dict[int, list[Row]] = {}
    for row in rows:
        buckets.setdefault(row[0] // MESSAGES_TO_A_BUCKET, []).append(row)
    return {
        number: sha256(b"".join(content for _, content in sorted(held))).hexdigest()
        for number, held in buckets.items()
    }


def spaced(seqs: Iterable[int]) -> list[Row]:
    """Return rows that fall into few buckets, several into each."""
    return [(seq * 1000, b"content of %d" % seq) for seq in seqs]


@settings(deadline=None)
@given(st.lists(st.integers(0, 40)), st.integers(1, 7))
def test_the_digest_of_sorted_rows_does_not_depend_on_batches(seqs: list[int], batch: int) -> None:
    rows = sorted(spaced(seqs))

    assert asked(rows, batch, is_sorted=True) == expected(rows)


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), unique=True), st.integers(1, 7))
def test_only_ascending_browse_numbers_have_a_digest(seqs: list[int], batch: int) -> None:
    rows = spaced(seqs)
    in_order = expected(rows)

    digests = asked(rows, batch)

    assert set(digests) == set(in_order)
    for number, digest in digests.items():
        held = [seq for seq, _ in rows if seq // MESSAGES_TO_A_BUCKET == number]
        assert digest == (in_order[number] if held == sorted(held) else None)


def test_equal_browse_numbers_have_no_digest() -> None:
    rows = [(5, b"b"), (5, b"a"), (5000, b"c")]

    digests = asked(rows)

    assert digests[0] is None
    assert digests[1] == expected(rows)[1]


def test_an_empty_part_has_no_buckets() -> None:
    assert asked([]) == {}
