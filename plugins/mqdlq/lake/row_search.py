"""Search the full rows of snapshots with DuckDB, which reads only the columns it needs.

DuckDB is an optional dependency (the extra `page`). A search sees the files of the snapshots that
it is given, newest first, and yields rows in this order: a caller that stops reading ends the
search. Values are parameters, and column names are those of the schema `HEADERS`.
"""

from __future__ import annotations

import glob
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from mqdlq.errors import LakeError
from mqdlq.lake import storage
from mqdlq.lake.parts import PART
from mqdlq.lake.schema import HEADERS
from mqdlq.lake.search_database import search_cursor
from mqdlq.rules.wildcards import automaton

Snapshots = Mapping[str, int]
"""Directories of snapshots in the order of a search, and how many full rows each has."""

_FIRST_ROWS: Final = 64
_MOST_ROWS: Final = 512
"""A caller that reads on gets more rows at a time, from the first number to the second."""

_MOST_PLACES: Final = 65_536
"""How many browse_seqs are fetched at a time."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a row: SQL with a ``?`` for each value."""

    sql: str
    values: tuple[object, ...] = ()


def equals(value: object, *columns: str) -> Condition:
    """Return the condition that one of these columns has this value."""
    return any_of([Condition(f"{_name(column)} = ?", (value,)) for column in columns])


def is_like(pattern: str, *columns: str) -> Condition:
    """Return the condition that one of these columns fits a pattern with ``*`` and ``?``."""
    if not {"*", "?"}.intersection(pattern):
        return equals(pattern, *columns)
    # DuckDB has RE2 for it, which never backtracks. Its LIKE did until DuckDB 2.0.
    within = (automaton(pattern),)
    return any_of(
        [Condition(f"regexp_full_match({_name(one)}, ?, 's')", within) for one in columns]
    )


def contains(word: str, *columns: str) -> Condition:
    """Return the condition that one of these columns contains a word, whatever its case."""
    like = f"%{_literally(word)}%"
    return any_of([Condition(f"{_name(one)} ILIKE ? ESCAPE '\\'", (like,)) for one in columns])


def is_between(start: datetime | None, end: datetime | None, *columns: str) -> Condition:
    """Return the condition that the first column that is not null is in this time.

    `start` is included and `end` is not.
    """
    parts, before = [], ""
    for column in map(_name, columns):
        part, values = f"{before}{column} IS NOT NULL", []
        for sign, at in ((">=", start), ("<", end)):
            if at is not None:
                part += f" AND {column} {sign} make_timestamptz(?::BIGINT)"
                values.append(_microseconds(at))
        parts.append(Condition(part, tuple(values)))
        before += f"{column} IS NULL AND "
    return any_of(parts)


def is_one_of(rows: Sequence[Sequence[Any]], *columns: str) -> Condition:
    """Return the condition that these columns together have one of these rows of values.

    A null in a column equals "" or 0.
    """
    given = ", ".join(f"unnest(?::{_sql_type(column)}[])" for column in columns)
    read = ", ".join(
        _name(column)
        if _sql_type(column) == "BLOB"
        else f"coalesce({_name(column)}, {_blank(column)})"
        for column in columns
    )
    values = tuple([row[at] for row in rows] for at in range(len(columns)))
    return Condition(f"({read}) IN (SELECT {given})", values)


def is_within(first: int, last: int, column: str) -> Condition:
    """Return the condition that a number is in this range, both ends included."""
    return Condition(f"{_name(column)} BETWEEN ? AND ?", (first, last))


def begins_with(digits: str, length: int, column: str) -> Condition:
    """Return the condition that an identifier begins with these of its hexadecimal digits."""
    if len(digits) == length:
        return equals(bytes.fromhex(digits), column)
    ends = (bytes.fromhex(digits.ljust(length, one)) for one in "0f")
    return Condition(f"{_name(column)} BETWEEN ? AND ?", tuple(ends))


def any_of(conditions: Sequence[Condition]) -> Condition:
    """Return the condition that at least one of these holds."""
    if len(conditions) == 1:
        return conditions[0]
    joined = " OR ".join(f"({one.sql})" for one in conditions)
    return Condition(f"({joined})", tuple(value for one in conditions for value in one.values))


def search_rows(
    snapshots: Snapshots,
    conditions: Sequence[Condition],
    columns: Sequence[str],
    *,
    limit: int | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of these snapshots that meet all conditions, each with its snapshot.

    Rows come in the order of the snapshots, those of one in browse order, at most `limit` of them.
    Some hundreds are in memory at a time. Raises `LakeError`.
    """
    if not snapshots:
        return
    files = _files(snapshots)
    names = ", ".join(_read(column) for column in columns)
    text = f"SELECT filename, {names} {_source(conditions)}"
    times = [at for at, column in enumerate(columns) if _is_time(column)]
    if limit is not None:
        text += f" LIMIT {limit:d}"
    at_once = _FIRST_ROWS
    with _answer(text, snapshots, conditions) as answer:
        while rows := answer.fetchmany(at_once):
            at_once = min(2 * at_once, _MOST_ROWS)
            for file, *values in rows:
                for at in times:
                    values[at] = _moment(values[at])
                yield files[file], dict(zip(columns, values, strict=True))


def places_of_rows(snapshot: str, rows: int, conditions: Sequence[Condition]) -> array[int]:
    """Return the browse_seqs of the full rows of one snapshot that meet all conditions.

    `rows` is how many full rows it has. Eight bytes are in memory for each that is found.
    """
    found = array("q")
    snapshots = {snapshot: rows}
    with _answer(f"SELECT browse_seq {_source(conditions)}", snapshots, conditions) as answer:
        while some := answer.fetchmany(_MOST_PLACES):
            found.extend(place for (place,) in some)
    return found


def count_rows(
    snapshots: Snapshots, conditions: Sequence[Condition], limit: int
) -> tuple[int, int]:
    """Count the rows that meet all conditions, and their different keys, up to a limit of rows."""
    if not snapshots:
        return 0, 0
    within = f"SELECT message_key {_source(conditions)} LIMIT {limit:d}"
    text = f"SELECT count(*), count(DISTINCT message_key) FROM ({within})"  # noqa: S608
    with _answer(text, snapshots, conditions) as answer:
        rows, keys = answer.fetchone()
    return int(rows), int(keys)


def count_keys_by(
    column: str, snapshots: Snapshots, conditions: Sequence[Condition], most: int, limit: int
) -> tuple[list[tuple[Any, int]], int]:
    """Count the different keys by the values of a column, the most frequent `most` of them.

    A null counts as "" or 0. Also return how many rows were counted, at most `limit`.
    """
    if not snapshots:
        return [], 0
    name = f"coalesce({_name(column)}, {_blank(column)})"
    within = f"SELECT {name} AS named, message_key {_source(conditions)} LIMIT {limit:d}"
    text = (
        f"SELECT named, count(DISTINCT message_key) AS keys, sum(count(*)) OVER () FROM ({within})"  # noqa: S608
        f" GROUP BY named ORDER BY keys DESC, named LIMIT {most:d}"
    )
    with _answer(text, snapshots, conditions) as answer:
        found = answer.fetchall()
    return [(value, int(keys)) for value, keys, _ in found], int(found[0][2]) if found else 0


def distinct_rows(
    snapshots: Snapshots, conditions: Sequence[Condition], columns: Sequence[str], limit: int
) -> list[tuple[Any, ...]]:
    """Return the different values that these columns have together, at most `limit` of them."""
    if not snapshots:
        return []
    names = ", ".join(_read(column) for column in columns)
    text = f"SELECT DISTINCT {names} {_source(conditions)} LIMIT {limit:d}"
    with _answer(text, snapshots, conditions) as answer:
        return [tuple(row) for row in answer.fetchall()]


def _source(conditions: Sequence[Condition]) -> str:
    where = " AND ".join(f"({one.sql})" for one in conditions) or "TRUE"
    return f"FROM read_parquet(?, filename = TRUE, hive_partitioning = FALSE) WHERE {where}"


@contextmanager
def _answer(text: str, snapshots: Snapshots, conditions: Sequence[Condition]) -> Iterator[Any]:
    """Run a query; the files are its first parameter."""
    files = _files(snapshots)
    cursor = search_cursor({file: snapshots[directory] for file, directory in files.items()})
    import duckdb  # noqa: PLC0415 (optional; `search_cursor` has imported it)

    values = [value for one in conditions for value in one.values]
    paths = [glob.escape(file) for file in files]
    try:
        yield cursor.execute(text, [paths, *values])
    except duckdb.Error as error:
        raise LakeError(
            "MQDLQ-974",
            f"the snapshots of the lake cannot be searched ({_first_line(error)}); search again,"
            " and if it fails again, look whether all files of the lake can be read",
        ) from error
    finally:
        cursor.close()


def _files(snapshots: Iterable[str]) -> dict[str, str]:
    """Return the file of each snapshot's full rows, as DuckDB names it, and the snapshot."""
    found = {}
    for snapshot in snapshots:
        place = f"{snapshot}/headers/{PART}"
        files, path = storage.filesystem(place)
        found[path if isinstance(files, LocalFileSystem) else place] = snapshot
    return found


def _read(column: str) -> str:
    return f"epoch_us({_name(column)})" if _is_time(column) else _name(column)


def _name(column: str) -> str:
    return f'"{HEADERS.field(column).name}"'


def _is_time(column: str) -> bool:
    return bool(pa.types.is_timestamp(HEADERS.field(column).type))


def _sql_type(column: str) -> str:
    kind = HEADERS.field(column).type
    return "BLOB" if kind == pa.binary() else "VARCHAR" if kind == pa.string() else "BIGINT"


def _blank(column: str) -> str:
    return "''" if _sql_type(column) == "VARCHAR" else "0"


def _literally(text: str) -> str:
    for special in ("\\", "%", "_"):
        text = text.replace(special, "\\" + special)
    return text


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + microseconds * _MICROSECOND


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
