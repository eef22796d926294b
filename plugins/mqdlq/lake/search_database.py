"""DuckDB's in-memory databases, which search Parquet files and remember their footers.

A database has no tables. DuckDB reads the footer of a file for each query unless it remembers it,
and the footer of a million rows takes 8 ms of processor time. DuckDB limits the number of footers
only by an estimate, a ninth of what they take, so `_Databases` counts their row groups. DuckDB
reads a footer again if the file has changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import Any, Final

from mqdlq.errors import LakeError
from mqdlq.lake import storage
from mqdlq.lake.parts import ROWS_TO_A_GROUP

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
    return _databases(os.getpid(), _scheme(next(iter(files)))).cursor(files)


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
                self._remember(groups)
            cursor = self._database.cursor()
        cursor.execute("SET streaming_buffer_size = '64KB'")
        if not is_small:
            cursor.execute("SET parquet_metadata_cache = FALSE")
        return cursor

    def _remember(self, groups: Mapping[str, int]) -> None:
        together = {**self._groups, **groups}
        if sum(together.values()) > REMEMBERED_GROUPS:
            self._database = _open(self._scheme)  # searches under way keep the previous one
            together = dict(groups)
        self._groups = together


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


def _scheme(file: str) -> str:
    return file.partition("://")[0] if "://" in file else ""
