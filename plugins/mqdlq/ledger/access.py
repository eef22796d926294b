"""The ledger's database URL, and one sentence for each way in which a database cannot be used."""

import os
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import URL, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError

from mqdlq.errors import LedgerUnavailableError

DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
FORMS: Final = "sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"


class Remedy(NamedTuple):
    """The next step after a fault of the database; it is the end of the error's text.

    A transient fault may end by itself: a container that is down has no name, for example.
    """

    error_id: str
    text: str
    is_transient: bool = False


_END_IT: Final = Remedy("MQDLQ-216", "end it, and try again", is_transient=True)
_RIGHTS: Final = Remedy(
    "MQDLQ-217",
    f"give user id {os.geteuid()} the rights to read and write the file and its directory",
)
NOT_CREATED: Final = Remedy(
    "MQDLQ-263",
    "correct MQDLQ_HOME, or MQDLQ_LEDGER_URL if it is set, or start a run: `mqdlq run HANDLER`",
)
_SQLITE: Final = {
    sqlite3.SQLITE_CANTOPEN: ("the file cannot be opened", _RIGHTS),
    sqlite3.SQLITE_READONLY: ("the file cannot be written to", _RIGHTS),
    sqlite3.SQLITE_NOTADB: (
        "the file is not an SQLite database",
        Remedy("MQDLQ-218", "name another file, or restore a backup"),
    ),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged", Remedy("MQDLQ-219", "restore a backup")),
    sqlite3.SQLITE_BUSY: ("another process keeps the file locked", _END_IT),
    sqlite3.SQLITE_LOCKED: ("another process keeps a table locked", _END_IT),
    sqlite3.SQLITE_IOERR: (
        "the file cannot be read or written",
        Remedy("MQDLQ-220", "check its disk"),
    ),
    sqlite3.SQLITE_FULL: ("the disk is full", Remedy("MQDLQ-221", "make room, and try again")),
}
"""By SQLite's primary result code (its documentation, "Result and Error Codes"): fault, remedy."""

_UNREACHABLE: Final = Remedy(
    "MQDLQ-205", "start the database server, or correct the ledger's URL", is_transient=True
)
_HOST: Final = Remedy("MQDLQ-206", "correct the host in the ledger's URL", is_transient=True)
_CREDENTIALS: Final = Remedy("MQDLQ-207", "correct user and password in the ledger's URL")
_SCHEMA: Final = Remedy(
    "MQDLQ-209", "give the user the rights to create and change tables in the schema"
)
_STARTING: Final = Remedy("MQDLQ-211", "try again when the server has started", is_transient=True)
_CONFLICT: Final = Remedy(
    "MQDLQ-212", "try again when the other process has finished", is_transient=True
)
_BUSY: Final = Remedy(
    "MQDLQ-213", "free the resource that the server lacks, and try again", is_transient=True
)
_POSTGRESQL: Final = {
    "08": _UNREACHABLE,
    "25006": Remedy("MQDLQ-210", "name the primary server in the ledger's URL"),
    "28": _CREDENTIALS,
    "3F": _SCHEMA,
    "40P01": _CONFLICT,
    "42501": _SCHEMA,
    "53": _BUSY,
    "57014": Remedy("MQDLQ-274", "narrow the filter, or try again when the server has less to do"),
    "57P": _STARTING,
    "58": Remedy("MQDLQ-214", "read the server's log"),
}
"""By the beginning of an SQLSTATE (PostgreSQL's documentation, "Error Codes"): the remedy."""

_CONNECTING: Final = {
    "password|authentication|pg_hba|role .* does not exist": _CREDENTIALS,
    "database .* does not exist": Remedy(
        "MQDLQ-208", "create the database, or correct the ledger's URL"
    ),
    "starting up|shutting down|recovery mode": _STARTING,
    "resolve host": _HOST,
    "invalid": Remedy("MQDLQ-215", "correct the ledger's URL"),
}
"""By a pattern of the text, since a connection that was never made has no SQLSTATE: the remedy."""


def url_of(text: str) -> URL:
    """Return a ledger's URL as SQLAlchemy has it; raise LedgerUnavailableError if it is not one.

    The error never quotes the text, which may hold a password in an unexpected place.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise _unreadable() from None
    driver = DRIVERS.get(url.drivername, url.drivername)
    if driver not in DRIVERS.values():
        raise LedgerUnavailableError(
            "MQDLQ-202",
            f"the ledger cannot be kept in a database of the kind {driver!r}; expected {FORMS}",
        )
    # Behind an @ in a password, SQLAlchemy takes the rest of the password for a host.
    if "@" in (url.host or "") or (driver == "sqlite" and url.host):
        raise _unreadable()
    return url.set(drivername=driver)


def postgresql_url(
    *,
    username: str | None,
    password: str | None,
    host: str | None,
    port: int | None,
    database: str | None,
    query: Mapping[str, object],
) -> str:
    """Return the URL of a PostgreSQL database, with the password in it.

    `query` holds parameters of libpq, such as `sslmode`. An empty value is one that is not given.
    """
    url = URL.create(
        DRIVERS["postgresql"],
        username=username or None,
        password=password or None,
        host=host or None,
        port=port,
        database=database or None,
        query={name: str(value) for name, value in query.items()},
    )
    return url.render_as_string(hide_password=False)


def shown(url: URL) -> str:
    """Return a URL without any password."""
    secret = [name for name in url.query if "password" in name]
    return url.difference_update_query(secret).render_as_string(hide_password=True)


def unusable(url: URL, what: str, remedy: Remedy) -> LedgerUnavailableError:
    """Return the error of a ledger that cannot be used: what is wrong, and what to do."""
    return LedgerUnavailableError(
        remedy.error_id,
        f"the ledger {shown(url)} cannot be used: {what}; {remedy.text}",
        is_transient=remedy.is_transient,
    )


def not_writable(url: URL, error: OSError) -> LedgerUnavailableError:
    """Return the error of an SQLite file that cannot be created or written to."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        what = f"{error.filename} is not a directory"
        return unusable(url, what, Remedy("MQDLQ-223", "name a file in a directory"))
    what = f"{error.filename} cannot be created or written to ({error.strerror})"
    return unusable(url, what, _RIGHTS)


def explain(context: ExceptionContext) -> LedgerUnavailableError | None:
    """Return the error for a fault of the database, or of the way to it; None for any other fault.

    It is made to listen to SQLAlchemy's event `handle_error`.
    """
    error, engine = context.original_exception, context.engine
    if engine is None:
        return None
    if isinstance(error, sqlite3.Error):
        known = _SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
        return unusable(engine.url, *known) if known else None
    state = getattr(error, "sqlstate", None)
    remedies = (do for code, do in _POSTGRESQL.items() if state and state.startswith(code))
    remedy = next(remedies, None)
    if context.is_disconnect or context.connection is None or remedy:
        lines = str(error).splitlines() or ["the connection was lost"]
        what = _last_failure(lines) if context.connection is None else lines[0]
        found = (do for words, do in _CONNECTING.items() if re.search(words, what))
        return unusable(engine.url, what, remedy or next(found, _UNREACHABLE))
    return None


def _unreadable() -> LedgerUnavailableError:
    return LedgerUnavailableError(
        "MQDLQ-203",
        f"the ledger's URL cannot be read; expected {FORMS}, and in a password %40 for @,"
        " %3A for : and %2F for /",
    )


def _last_failure(lines: Sequence[str]) -> str:
    """Return the last failure that libpq names, in one line: it may have tried several addresses.

    Lines that begin with a tab are its advice.
    """
    failures = [line for line in lines if line.strip() and not line.startswith("\t")]
    last = re.sub(r"^.*connection (failed|is bad): ", "", failures[-1])
    return " ".join(last.split())
