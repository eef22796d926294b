"""The footers of searched files are remembered: within a limit, and while a file stays as it is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mqdlq import lake
from mqdlq.headers import MessageDescriptor, header_row
from mqdlq.lake import row_search
from mqdlq.lake.row_search import count_rows, search_cursor, search_rows
from mqdlq.lake.snapshots import PART

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def snapshot(directory: Path, name: str, rows: int = 1) -> str:
    """Write a snapshot whose rows differ in their bodies, and return its directory."""
    with lake.SnapshotWriter(str(directory), "QM1", "DLQ", name) as writer:
        for number in range(rows):
            body = f"{name} {number}".encode()
            writer.write(
                header_row(number + 1, MessageDescriptor().encode(), body, 4, browsed_at=NOON)
            )
        writer.finish(taken_at=NOON, taken_by="", rules_digest="0" * 64, rules_text="")
    return writer.directory


@pytest.fixture(name="databases")
def _databases(monkeypatch: pytest.MonkeyPatch) -> row_search._Databases:
    """Return new databases that remember at most two row groups."""
    monkeypatch.setattr(row_search, "REMEMBERED_GROUPS", 2)
    own = row_search._Databases("")
    monkeypatch.setattr(row_search, "_databases", lambda _process, _scheme: own)
    return own


def test_a_database_that_remembers_too_much_is_replaced(
    tmp_path: Path, databases: row_search._Databases
) -> None:
    names = [snapshot(tmp_path, name) for name in ("s1", "s2", "s3")]
    remembered, seen = [], []
    for some in (names[:1], names[:2], names[1:], names[:1]):
        seen.append(count_rows(dict.fromkeys(some, 1), [], 10))
        remembered.append(len(databases._groups))

    assert seen == [(1, 1), (2, 2), (2, 2), (1, 1)]
    assert remembered == [1, 2, 2, 1]


def test_a_search_of_too_many_files_remembers_none(
    tmp_path: Path, databases: row_search._Databases
) -> None:
    names = [snapshot(tmp_path, name) for name in ("s1", "s2", "s3")]

    assert count_rows(dict.fromkeys(names, 1), [], 10) == (3, 3)
    assert databases._groups == {}
    with search_cursor(dict.fromkeys(names, 1)) as large, search_cursor({names[0]: 1}) as small:
        query = "SELECT current_setting('parquet_metadata_cache')"
        assert large.execute(query).fetchone() == (False,)
        assert small.execute(query).fetchone() == (True,)


def test_a_search_under_way_outlives_its_database(
    tmp_path: Path, databases: row_search._Databases
) -> None:
    first = snapshot(tmp_path, "s1", rows=200)
    found = search_rows({first: 200}, [], ["browse_seq"])
    begun = next(found)
    for name in ("s2", "s3", "s4"):
        assert count_rows({snapshot(tmp_path, name): 1}, [], 10) == (1, 1)

    assert not any(file.startswith(first) for file in databases._groups)
    assert [row["browse_seq"] for _, row in (begun, *found)] == list(range(1, 201))


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    first = snapshot(tmp_path / "a", "s1")
    assert count_rows({first: 1}, [], 10) == (1, 1)
    second = snapshot(tmp_path / "b", "s1", rows=3)
    Path(second, "headers").rename(Path(second, "new"))
    Path(second, "new", PART).replace(Path(first, "headers", PART))

    assert count_rows({first: 3}, [], 10) == (3, 3)
