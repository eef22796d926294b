"""The ledger's schema as a history of revisions, which Alembic applies to a database.

The first revision makes the ledger of the first release. Each later change of a table is one more
file in `versions`; a released revision never changes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Engine, String, column, inspect, select, table, text
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

from mqdlq.errors import LedgerUnavailableError
from mqdlq.ledger.access import Remedy, unusable
from mqdlq.ledger.database import to_migrate

if TYPE_CHECKING:
    from alembic.config import Config

VERSION_TABLE: Final = "ledger_revision"
"""Alembic's usual name may be that of another program's table in the same database."""

_ALEMBIC = Lock()  # it keeps what it works on in variables of its modules


@cache
def revisions() -> tuple[str, ...]:
    """Return the revisions that this code knows, oldest first; their files' names begin so."""
    files = (Path(__file__).parent / "versions").glob("r*_*.py")
    return tuple(sorted(file.name[1:].partition("_")[0] for file in files))


def migrate(engine: Engine) -> None:
    """Bring a database to the newest revision, all or nothing, if one query says it is not there.

    If several processes do so at once, one does and the others find it done. If the database has a
    revision that this code does not know, belongs to another program, or holds rows that contradict
    each other, raises LedgerUnavailableError and changes nothing.
    """
    if revision_of(engine) == revisions()[-1]:
        return
    with to_migrate(engine) as connection:
        _check_whose(connection)
        try:
            upgrade(connection)
        except IntegrityError as error:
            raise _contradiction(engine, " ".join(str(error.orig).split())) from error
        if engine.dialect.name == "sqlite":  # which did not check while tables were copied
            for name, row, referred, _ in connection.execute(text("PRAGMA foreign_key_check")):
                found = f"row {row} of table {name} refers to a row that {referred} does not have"
                raise _contradiction(engine, found)


def require_current(engine: Engine) -> None:
    """Raise LedgerUnavailableError unless a database has the newest revision; change nothing."""
    if (found := revision_of(engine)) != revisions()[-1]:
        has = "no ledger was created in it yet" if found is None else f"it is at revision {found}"
        raise unusable(
            engine.url,
            f"{has}, and this version of mqdlq needs revision {revisions()[-1]}",
            Remedy(
                "MQDLQ-227",
                "start a run of any handler, or run python -m mqdlq.ledger; each of them creates"
                " a ledger or upgrades it",
                is_transient=True,
            ),
        )


def revision_of(engine: Engine) -> str | None:
    """Return the revision of a database, or None if it has had none."""
    try:
        with engine.connect() as connection:
            return _version(connection)
    except (OperationalError, ProgrammingError):  # no such table, as SQLite and PostgreSQL say it
        return None


def upgrade(connection: Connection, to: str = "head") -> None:
    """Apply the revisions that a database has not had, up to one of them."""
    from alembic import command  # noqa: PLC0415 (it takes a quarter of a second)

    with _ALEMBIC:
        command.upgrade(alembic_config(connection), to)


def alembic_config(connection: Connection) -> Config:
    """Return what Alembic must know: where the revisions are, and the connection for `env.py`."""
    from alembic.config import Config  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", f"{__package__}:")
    config.set_main_option("file_template", "r%%(rev)s_%%(slug)s")
    return config


def _version(connection: Connection) -> str | None:
    version = column("version_num", String)
    return connection.scalar(select(version).select_from(table(VERSION_TABLE)))


def _check_whose(connection: Connection) -> None:
    tables = set(inspect(connection).get_table_names())
    where = connection.engine.url
    if VERSION_TABLE in tables:
        found = _version(connection)
        if found not in {None, *revisions()}:
            raise unusable(
                where,
                f"it is at revision {found}, made by a newer version of mqdlq, and this version"
                f" knows revisions up to {revisions()[-1]}",
                Remedy(
                    "MQDLQ-225",
                    "use the newer version, or restore the backup that was made before the upgrade",
                ),
            )
    elif tables:
        raise unusable(
            where,
            f"the database belongs to another program (it has the table {min(tables)})",
            Remedy("MQDLQ-224", "name an empty database in the ledger's URL"),
        )


def _contradiction(engine: Engine, found: str) -> LedgerUnavailableError:
    return unusable(
        engine.url,
        f"it cannot be upgraded and was not changed: {found}",
        Remedy("MQDLQ-226", "restore a backup, or report this text"),
    )
