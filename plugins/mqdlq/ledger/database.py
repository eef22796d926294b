"""Engines for a ledger's database, its transactions, and the base of its repositories.

The page has engines of its own, which wait seconds for a ledger and remember one that is away: it
shares a process with Airflow's API, and its few threads must not wait for minutes. A server may
accept connections and never answer, or stop between two statements.
"""

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import fields
from datetime import datetime
from functools import cache, lru_cache, partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import TimeoutError as NoConnectionFreeError

from mqdlq import directories
from mqdlq.errors import LedgerError, LedgerUnavailableError
from mqdlq.ledger.access import NOT_CREATED, Remedy, explain, not_writable, unusable, url_of

TURN = 0x4D51_444C  # the number of the advisory lock: "MQDL"
CONNECT_S = 15  # libpq would wait for minutes for a host that does not answer
ACCEPT_WITHIN_S = 600  # SQLite has one writer, and to accept a million messages takes minutes
OPEN_WITHIN_S = 30  # only another program keeps a whole ledger locked: our writers let others read
KEYS_AT_ONCE = 500  # below every database's limit of bound parameters
ROWS_AT_ONCE = 5_000  # how many rows of a long result are in memory at a time

T = TypeVar("T")
Row = sa.Row[*tuple[Any, ...]]
Condition = sa.ColumnElement[bool]


class Repository:
    """Base of the repositories: each method has its own transaction.

    Any of them raises LedgerUnavailableError if the database cannot be used.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def _rows(self, query: sa.Select[Any]) -> Sequence[Row]:
        with self._engine.connect() as connection:
            return connection.execute(query).all()

    def _values(self, query: sa.Select[Any]) -> Sequence[Any]:
        with self._engine.connect() as connection:
            return connection.scalars(query).all()

    def _value(self, query: sa.Select[Any]) -> Any:
        """Return the first value of the first row, None if there is none."""
        return next(iter(self._values(query.limit(1))), None)

    def _count(self, query: sa.Select[Any]) -> int:
        return int(self._value(query))

    def _moment(self, query: sa.Select[Any]) -> datetime | None:
        moment: datetime | None = self._value(query)
        return moment

    def _first(self, query: sa.Select[Any]) -> Row | None:
        return next(iter(self._rows(query.limit(1))), None)

    def _map(self, query: sa.Select[Any]) -> dict[Any, Any]:
        """Return the values of the second column by those of the first."""
        with self._stream(query) as rows:
            return {row[0]: row[1] for row in rows}

    def _among(
        self, query: sa.Select[Any], column: sa.ColumnElement[Any], values: Iterable[Any]
    ) -> Iterator[Row]:
        """Yield the rows in which a column has one of these values, however many."""
        for some in in_parts(values):
            yield from self._rows(query.where(column.in_(some)))

    def _list(self, kind: Callable[..., T], query: sa.Select[Any]) -> list[T]:
        """Return a record of each row, whose columns have the names of its fields."""
        return [kind(**row._asdict()) for row in self._rows(query)]

    def _one(self, kind: Callable[..., T], query: sa.Select[Any]) -> T | None:
        return next(iter(self._list(kind, query.limit(1))), None)

    def _of_run(self, table: sa.Table, kind: type[T], run_id: str) -> T | None:
        """Return what a table has of a run, the last row if there may be several, or None."""
        query = select_records(table, kind).where(table.c.run_id == run_id)
        return self._one(kind, query.order_by(table.c.seq.desc()) if "seq" in table.c else query)

    @contextmanager
    def _stream(self, query: sa.Select[Any]) -> Iterator[sa.CursorResult[*tuple[Any, ...]]]:
        """Open a cursor that reads some rows at a time; close it even if rows remain."""
        with (
            self._engine.connect() as connection,
            connection.execution_options(yield_per=ROWS_AT_ONCE).execute(query) as rows,
        ):
            yield rows

    def _add(self, table: sa.Table, *rows: Mapping[str, Any]) -> None:
        with self._engine.begin() as connection:
            add(connection, table, rows)

    def _add_once(self, table: sa.Table, row: Mapping[str, Any], *key: str) -> None:
        """Add a row unless the table has one with the same values in these columns."""
        with in_turn(self._engine) as connection:
            same = [table.c[name] == row[name] for name in key]
            if connection.execute(sa.select(sa.literal(1)).where(*same)).first() is None:
                connection.execute(sa.insert(table), row)


def add(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(sa.insert(table), rows)


def add_many(
    connection: sa.Connection,
    statement: sa.Insert,
    names: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
) -> None:
    """Execute an INSERT for many rows of plain values, in the order of the named parameters.

    The driver gets them as they are: SQLAlchemy takes longer to bind a row than SQLite to store it.
    """
    if not rows:
        return
    text, places = _compiled(statement, connection.dialect, tuple(names))
    if places is None:
        named = [dict(zip(names, row, strict=True)) for row in rows]
        connection.exec_driver_sql(text, named)
    elif places == tuple(range(len(names))):
        connection.exec_driver_sql(text, list(rows))
    else:
        connection.exec_driver_sql(text, [*map(itemgetter(*places), rows)])


@lru_cache(maxsize=64)
def _compiled(
    statement: sa.Insert, dialect: sa.Dialect, names: tuple[str, ...]
) -> tuple[str, tuple[int, ...] | None]:
    """Return an INSERT for the driver, and the places of its parameters if it has no names."""
    compiled = statement.compile(dialect=dialect, column_keys=names)
    in_order = compiled.positiontup
    return str(compiled), None if in_order is None else tuple(map(names.index, in_order))


def inserted(connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> int:
    """Insert one row and return its number, which the database has chosen."""
    key = connection.execute(sa.insert(table), row).inserted_primary_key
    return int(key[0]) if key else 0


def columns_of(table: sa.Table, kind: type) -> list[sa.Column[Any]]:
    """Return the columns that hold the fields of a dataclass, in their order."""
    return [table.c[field.name] for field in fields(kind)]


def select_records(table: sa.Table, kind: type) -> sa.Select[Any]:
    return sa.select(*columns_of(table, kind))


def is_on(table: sa.Table, queue_manager: str, queue: str) -> Condition:
    """Return the condition that a run or a message is one of this queue."""
    return (table.c.queue_manager == queue_manager) & (table.c.queue == queue)


def is_last(table: sa.Table, *key: str) -> Condition:
    """Return the condition that a row is the last one with its values in these columns."""
    other = table.alias()
    same = [other.c[name] == table.c[name] for name in key]
    newest = sa.select(sa.func.max(other.c.seq)).where(*same).correlate(table)
    return table.c.seq == newest.scalar_subquery()


def total(numbers: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Return the sum of numbers; PostgreSQL's own sum is a Decimal in Python."""
    return sa.cast(sa.func.coalesce(sa.func.sum(numbers), 0), sa.BigInteger)


def in_parts(items: Iterable[T], size: int = KEYS_AT_ONCE) -> Iterator[list[T]]:
    """Yield items in lists of a size, the last one shorter; none if there are none."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


def connect_to(
    text: str,
    *,
    create: bool = True,
    connect_s: int = CONNECT_S,
    statement_s: int | None = None,
    **pool: Any,
) -> sa.Engine:
    """Return an engine for a database URL; `create` makes an SQLite file, for its owner alone.

    Connections are tried before use: if the server was restarted while a run waited for its next
    pass, the run does not notice. A statement may take `statement_s` on PostgreSQL, and wait so
    long for another program's lock on SQLite; `pool` has options of SQLAlchemy. Raises
    LedgerUnavailableError if the URL is not one of SQLite or PostgreSQL, or the file is missing or
    cannot be created; every use of the engine raises it if the database cannot be used.
    """
    url = url_of(text)
    is_sqlite = url.get_backend_name() == "sqlite"
    within = {} if is_sqlite or "connect_timeout" in url.query else {"connect_timeout": connect_s}
    engine = sa.create_engine(url, pool_pre_ping=True, connect_args=within, **pool)
    event.listen(engine, "handle_error", explain)
    if is_sqlite:
        _find_file(engine.url, create=create)
        event.listen(engine, "connect", partial(_prepare_sqlite, statement_s))
        event.listen(engine, "begin", _begin_sqlite)
    else:
        event.listen(engine, "connect", partial(_prepare_postgresql, statement_s))
    return engine


@contextmanager
def in_turn(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Begin a transaction that reads and then writes what follows from it: only one at a time."""
    with engine.execution_options(in_turn=True).begin() as connection:
        _wait_for_turn(connection)
        yield connection


@contextmanager
def to_migrate(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Begin such a transaction to change tables; SQLite does not check foreign keys in it.

    Where SQLite cannot alter a table, it is copied, dropped and renamed. Its rows would be deleted
    with it, and views of it refused, unless these settings are made before the transaction begins
    (SQLite documentation, "ALTER TABLE", "Making Other Kinds Of Table Schema Changes").
    """
    with engine.execution_options(in_turn=True).connect() as connection:
        _set_for_migration(connection, is_begun=True)
        try:
            with connection.begin():
                _wait_for_turn(connection)
                yield connection
        finally:
            _set_for_migration(connection, is_begun=False)


def _set_for_migration(connection: sa.Connection, *, is_begun: bool) -> None:
    if connection.dialect.name != "sqlite":
        return  # a lost connection would be made again here
    driver = connection.connection.driver_connection
    if driver is not None:
        driver.execute(f"PRAGMA foreign_keys={'OFF' if is_begun else 'ON'}")
        driver.execute(f"PRAGMA legacy_alter_table={'ON' if is_begun else 'OFF'}")


def _wait_for_turn(connection: sa.Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(TURN)))


def _find_file(url: sa.URL, *, create: bool) -> None:
    """Create a missing file for its owner alone: it names queues, reasons and times."""
    if url.database and url.database != ":memory:":
        file = Path(url.database)
        is_missing = not file.exists() and next(p for p in file.parents if p.exists()).is_dir()
        if is_missing and not create:
            raise unusable(url, "the file does not exist", NOT_CREATED)
        try:
            directories.make_private_directory(file.parent)
            if not file.exists():
                _create(file)
        except OSError as error:
            raise not_writable(url, error) from None
        if file.is_dir():
            raise unusable(url, f"{file} is a directory", Remedy("MQDLQ-222", "name a file in it"))


def _create(file: Path) -> None:
    """Create an empty database in WAL mode, whole when others see it; one of them may be faster.

    SQLite does not wait for its turn to set this mode: of several that set it on one file, some
    would fail with "database is locked".
    """
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".ledger-")
    os.close(descriptor)
    try:
        with closing(sqlite3.connect(name)) as made:
            made.execute("PRAGMA journal_mode=WAL")
        with suppress(FileExistsError):
            os.link(name, file)
    finally:
        Path(name).unlink()


def _prepare_postgresql(statement_s: int | None, connection: Any, _record: Any) -> None:
    # It compiles a query for seconds that reads a few rows of many tables in milliseconds.
    with connection.cursor() as cursor:
        cursor.execute("SET jit = off")
        if statement_s:
            cursor.execute(f"SET statement_timeout = '{statement_s}s'")
    connection.commit()


def _prepare_sqlite(statement_s: int | None, connection: Any, _record: Any) -> None:
    # Python's driver would leave CREATE TABLE outside any transaction: we begin them ourselves.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={(statement_s or OPEN_WITHIN_S) * 1000}")
    is_new = connection.execute("PRAGMA page_count").fetchone() == (0,)
    if is_new:  # the setting stays in the file, which may be another program's
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA busy_timeout={(statement_s or ACCEPT_WITHIN_S) * 1000}")
    connection.execute("PRAGMA synchronous=FULL")  # what is booked must outlive a power cut
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_sqlite(connection: sa.Connection) -> None:
    waits = connection.get_execution_options().get("in_turn")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if waits else "BEGIN")


PAGE_CONNECT_S: Final = 3
POOL_S: Final = 3
STATEMENT_S: Final = 8
"""How long the page waits for a new connection, for a free one, and for a statement."""
SILENT_S: Final = 10
"""How long a server may be silent; a server that answers ends slow statements before that."""
AWAY_S: Final = 5
"""How long a ledger counts as away after it could not be used; then it is tried again."""
KEPT: Final = 4
CONNECTIONS: Final = 16
"""A request in progress needs one or two connections, and a download one until it ends."""

_BUSY: Final = Remedy("MQDLQ-275", "try again when fewer downloads are in progress")


def connect_impatiently(text: str, clock: Callable[[], float] = time.monotonic) -> sa.Engine:
    """Return an engine like `connect_to` for a page, whose every use ends within seconds.

    While the ledger is away, every use raises the LedgerUnavailableError that said so at once.
    `clock` counts seconds.
    """
    memory = _Memory(clock)

    class Pool(sa.QueuePool):
        def connect(self) -> sa.PoolProxiedConnection:
            memory.check()
            try:
                return super().connect()
            except NoConnectionFreeError:
                what = f"all {CONNECTIONS} connections of this process were in use for {POOL_S} s"
                raise unusable(url_of(text), what, _BUSY) from None

    engine = connect_to(
        text,
        connect_s=PAGE_CONNECT_S,
        statement_s=STATEMENT_S,
        poolclass=Pool,
        pool_size=KEPT,
        max_overflow=CONNECTIONS - KEPT,
        pool_timeout=POOL_S,
    )
    event.listen(engine, "handle_error", memory.note)
    if engine.dialect.name == "postgresql":
        event.listen(engine, "do_connect", _connect)
    return engine


def refuse_changes(engine: sa.Engine) -> sa.Engine:
    """Return an engine over the same connections that raises LedgerError instead of changing."""
    reading = engine.execution_options()

    @event.listens_for(reading, "before_cursor_execute")
    def refuse(
        _connection: Any, _cursor: Any, statement: str, _values: Any, context: Any, _: Any
    ) -> None:
        is_change = context.isinsert or context.isupdate or context.isdelete or context.isddl
        verb = statement.lstrip(" (\n").split(maxsplit=1)[0].upper()
        if is_change or verb not in {"SELECT", "WITH", "BEGIN"}:
            text = f"{verb} would change the ledger, which is read only here; change it elsewhere"
            raise LedgerError("MQDLQ-280", text)

    return reading


class _Memory:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said: tuple[LedgerUnavailableError, float] | None = None

    def check(self) -> None:
        """Raise the error again while it counts."""
        if self._said and self._clock() < self._said[1]:
            error, _ = self._said
            raise LedgerUnavailableError(error.error_id, error.text, is_transient=True)

    def note(self, context: sa.ExceptionContext) -> None:
        """Remember the error that `explain` has made, if waiting again would not help."""
        error = getattr(context, "chained_exception", None)  # it has none if nothing explains it
        if isinstance(error, LedgerUnavailableError) and error.is_transient:
            self._said = (error, self._clock() + AWAY_S)


def _connect(_dialect: Any, _record: Any, given: Any, named: Any) -> Any:
    return _impatient_connection().connect(*given, **named)


@cache
def _impatient_connection() -> Any:
    """Return psycopg's class of connections with a limit for silence.

    Neither libpq nor TCP has one: the kernel acknowledges for a server that has stopped.
    """
    import psycopg  # noqa: PLC0415 (optional)

    class ImpatientConnection(psycopg.Connection[Any]):
        def wait(self, gen: Generator[Any, Any, Any], *given: Any, **named: Any) -> Any:
            return super().wait(self._within(gen), *given, **named)

        def _within(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            until = time.monotonic() + SILENT_S
            ready = None
            while True:
                try:
                    wanted = gen.send(ready)
                except StopIteration as end:
                    return end.value
                ready = yield wanted
                if not ready and time.monotonic() > until:  # psycopg looks every 0.1 s
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server was silent for {SILENT_S} s")

    return ImpatientConnection
