"""Search the full rows of snapshots with DuckDB, which reads only the columns it needs.

DuckDB is an optional dependency (the extra `page`). A search sees the files of the snapshots that
it is given, newest first, and yields rows in this order: a caller that stops reading ends the
search. Values are parameters, and column names are those of the schema `HEADERS`.
"""

from __future__ import annotations

import glob
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from threading import Lock
from typing import Any, Final

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from mqdlq.errors import LakeError
from mqdlq.lake import storage
from mqdlq.lake.files import ROWS_TO_A_GROUP
from mqdlq.lake.schema import HEADERS
from mqdlq.lake.snapshots import PART
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


Condition = tuple[str, tuple[object, ...]]
"""A condition on a row: SQL with a ``?`` for each value, and the values."""


def equals(value: object, *columns: str) -> Condition:
    return _any_has("{} = ?", value, columns)


def is_like(pattern: str, *columns: str) -> Condition:
    """Return the condition that one of these columns fits a pattern with ``*`` and ``?``."""
    if not {"*", "?"}.intersection(pattern):
        return equals(pattern, *columns)
    # DuckDB has RE2 for it, which never backtracks. Its LIKE did until DuckDB 2.0.
    return _any_has("regexp_full_match({}, ?, 's')", automaton(pattern), columns)


def contains(word: str, *columns: str) -> Condition:
    """Return the condition that one of these columns contains a word, whatever its case."""
    literally = word
    for special in ("\\", "%", "_"):
        literally = literally.replace(special, "\\" + special)
    return _any_has("{} ILIKE ? ESCAPE '\\'", f"%{literally}%", columns)


def is_between(start: datetime | None, end: datetime | None, *columns: str) -> Condition:
    """Return the condition that the first column that is not null is in [start, end)."""
    parts: list[Condition] = []
    before = ""
    for column in map(_name, columns):
        part, values = f"{before}{column} IS NOT NULL", list[object]()
        for sign, at in ((">=", start), ("<", end)):
            if at is not None:
                part += f" AND {column} {sign} make_timestamptz(?::BIGINT)"
                values.append((at - _EPOCH) // _MICROSECOND)
        parts.append((part, tuple(values)))
        before += f"{column} IS NULL AND "
    return any_of(parts)


def is_one_of(rows: Sequence[Sequence[Any]], *columns: str) -> Condition:
    """Return the condition that the columns have one of these rows of values; null is "" or 0."""
    given = ", ".join(f"unnest(?::{_sql_type(column)}[])" for column in columns)
    read = ", ".join(
        _name(column)
        if _sql_type(column) == "BLOB"
        else f"coalesce({_name(column)}, {_blank(column)})"
        for column in columns
    )
    values = tuple([row[at] for row in rows] for at in range(len(columns)))
    return f"({read}) IN (SELECT {given})", values


def is_within(first: int, last: int, column: str) -> Condition:
    """Return the condition that a number is in this range, both ends included."""
    return f"{_name(column)} BETWEEN ? AND ?", (first, last)


def begins_with(digits: str, length: int, column: str) -> Condition:
    """Return the condition that an identifier begins with these of its hexadecimal digits."""
    if len(digits) == length:
        return equals(bytes.fromhex(digits), column)
    ends = tuple(bytes.fromhex(digits.ljust(length, one)) for one in "0f")
    return f"{_name(column)} BETWEEN ? AND ?", ends


def any_of(conditions: Sequence[Condition]) -> Condition:
    if len(conditions) == 1:
        return conditions[0]
    joined = " OR ".join(f"({sql})" for sql, _ in conditions)
    return f"({joined})", tuple(value for _, values in conditions for value in values)


def _any_has(sql: str, value: object, columns: Sequence[str]) -> Condition:
    return any_of([(sql.format(_name(column)), (value,)) for column in columns])


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
    within = f"SELECT message_key {_source(conditions)} LIMIT {limit:d}"
    text = f"SELECT count(*), count(DISTINCT message_key) FROM ({within})"  # noqa: S608
    for rows, keys in _fetched(text, snapshots, conditions):
        return int(rows), int(keys)
    return 0, 0


def count_keys_by(
    column: str, snapshots: Snapshots, conditions: Sequence[Condition], most: int, limit: int
) -> tuple[list[tuple[Any, int]], int]:
    """Count the different keys by the values of a column, the most frequent `most` of them.

    A null counts as "" or 0. Also return how many rows were counted, at most `limit`.
    """
    name = f"coalesce({_name(column)}, {_blank(column)})"
    within = f"SELECT {name} AS named, message_key {_source(conditions)} LIMIT {limit:d}"
    text = (
        f"SELECT named, count(DISTINCT message_key) AS keys, sum(count(*)) OVER () FROM ({within})"  # noqa: S608
        f" GROUP BY named ORDER BY keys DESC, named LIMIT {most:d}"
    )
    found = _fetched(text, snapshots, conditions)
    return [(value, int(keys)) for value, keys, _ in found], int(found[0][2]) if found else 0


def distinct_rows(
    snapshots: Snapshots, conditions: Sequence[Condition], columns: Sequence[str], limit: int
) -> list[tuple[Any, ...]]:
    """Return the different values that these columns have together, at most `limit` of them."""
    names = ", ".join(_read(column) for column in columns)
    text = f"SELECT DISTINCT {names} {_source(conditions)} LIMIT {limit:d}"
    return _fetched(text, snapshots, conditions)


def _fetched(
    text: str, snapshots: Snapshots, conditions: Sequence[Condition]
) -> list[tuple[Any, ...]]:
    if not snapshots:
        return []
    with _answer(text, snapshots, conditions) as answer:
        return list(answer.fetchall())


def _source(conditions: Sequence[Condition]) -> str:
    where = " AND ".join(f"({sql})" for sql, _ in conditions) or "TRUE"
    return f"FROM read_parquet(?, filename = TRUE, hive_partitioning = FALSE) WHERE {where}"


@contextmanager
def _answer(text: str, snapshots: Snapshots, conditions: Sequence[Condition]) -> Iterator[Any]:
    """Run a query; the files are its first parameter."""
    files = _files(snapshots)
    cursor = search_cursor({file: snapshots[directory] for file, directory in files.items()})
    import duckdb  # noqa: PLC0415 (optional; `search_cursor` has imported it)

    values = [value for _, values in conditions for value in values]
    paths = [glob.escape(file) for file in files]
    try:
        yield cursor.execute(text, [paths, *values])
    except duckdb.Error as error:
        first = str(error).partition("\n")[0]
        raise LakeError(
            "MQDLQ-974",
            f"the snapshots of the lake cannot be searched ({first}); search again,"
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


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + microseconds * _MICROSECOND


# DuckDB's in-memory databases, which remember the footers of files.
#
# A database has no tables. DuckDB reads the footer of a file for each query unless it remembers it,
# and the footer of a million rows takes 8 ms of processor time. DuckDB limits the number of footers
# only by an estimate, a ninth of what they take, so `_Databases` counts their row groups. DuckDB
# reads a footer again if the file has changed.

REMEMBERED_GROUPS: Final = 2_000
"""How many row groups the remembered footers have at most. One takes 50 KB, so all take 100 MB."""

_SETTINGS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "memory_limit": "512MB",  # a search sorts nothing; the limit is for faults
    "autoinstall_known_extensions": False,  # nothing is downloaded
    "autoload_known_extensions": False,
    # Rows come in the order of the files: with one thread, and if a list of values to compare with
    # is never read in place of the files.
    "threads": 1,
    "preserve_insertion_order": True,
}
# A limit would be a join with a second read of the files, if there are no conditions.
_OPTIMIZERS_OFF: Final = "build_side_probe_side,join_order,late_materialization"


def search_cursor(files: Mapping[str, int]) -> Any:
    """Return a cursor for one query over these files; the values count their rows.

    It reads rows as the caller fetches them. Raises `LakeError` without DuckDB.
    """
    first = next(iter(files))
    scheme = first.partition("://")[0] if "://" in first else ""
    return _databases(os.getpid(), scheme).cursor(files)


class _Databases:
    """The database of a process for a kind of file system, replaced when it remembers too much."""

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme
        self._lock = Lock()
        self._database = _open(scheme)
        self._groups: dict[str, int] = {}

    def cursor(self, files: Mapping[str, int]) -> Any:
        groups = {file: 1 + rows // ROWS_TO_A_GROUP for file, rows in files.items()}
        is_small = sum(groups.values()) <= REMEMBERED_GROUPS
        with self._lock:
            if is_small:
                together = {**self._groups, **groups}
                if sum(together.values()) > REMEMBERED_GROUPS:
                    self._database = _open(self._scheme)  # searches under way keep the previous one
                    together = groups
                self._groups = together
            cursor = self._database.cursor()
        cursor.execute("SET streaming_buffer_size = '64KB'")
        if not is_small:
            cursor.execute("SET parquet_metadata_cache = FALSE")
        return cursor


@cache
def _databases(process: int, scheme: str) -> _Databases:
    del process  # a database does not survive a fork
    return _Databases(scheme)


def _open(scheme: str) -> Any:
    try:
        import duckdb  # noqa: PLC0415 (optional)
    except ImportError:
        raise LakeError(
            "MQDLQ-973", "messages cannot be searched without DuckDB; install mqdlq[page]"
        ) from None
    database = duckdb.connect(config=_SETTINGS)
    database.execute(f"SET disabled_optimizers = '{_OPTIMIZERS_OFF}'")
    database.execute("SET GLOBAL parquet_metadata_cache = TRUE")
    if scheme:
        database.register_filesystem(storage.filesystem(f"{scheme}://")[0])
    else:
        with suppress(duckdb.CatalogException):  # other threads read files since DuckDB 2.0
            database.execute("SET GLOBAL async_threads = 0")
    return database
