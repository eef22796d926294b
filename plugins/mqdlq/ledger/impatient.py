"""Engines for the page, which waits seconds for a ledger and remembers one that is away.

The page shares a process with Airflow's API, and its few threads must not wait for minutes: a
server may accept connections and never answer, or stop between two statements.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, Final

from sqlalchemy import Engine, ExceptionContext, PoolProxiedConnection, QueuePool, event
from sqlalchemy.exc import TimeoutError as NoConnectionFreeError

from mqdlq.errors import LedgerUnavailableError
from mqdlq.ledger.access import Remedy, unusable, url_of
from mqdlq.ledger.database import connect_to

CONNECT_S: Final = 3
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


def connect_impatiently(text: str, clock: Callable[[], float] = time.monotonic) -> Engine:
    """Return an engine like `connect_to`, whose every use ends within seconds.

    While the ledger is away, every use raises the LedgerUnavailableError that said so at once.
    `clock` counts seconds.
    """
    memory = _Memory(clock)

    class Pool(QueuePool):
        def connect(self) -> PoolProxiedConnection:
            memory.check()
            try:
                return super().connect()
            except NoConnectionFreeError:
                what = f"all {CONNECTIONS} connections of this process were in use for {POOL_S} s"
                raise unusable(url_of(text), what, _BUSY) from None

    engine = connect_to(
        text,
        connect_s=CONNECT_S,
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


class _Memory:
    """The last error that said that a ledger is away, and until when it counts."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said: tuple[LedgerUnavailableError, float] | None = None

    def check(self) -> None:
        """Raise the error again while it counts."""
        if self._said and self._clock() < self._said[1]:
            error, _ = self._said
            raise LedgerUnavailableError(error.error_id, error.text, is_transient=True)

    def note(self, context: ExceptionContext) -> None:
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
