"""How a table is declared by its record, and kinds of columns that SQL databases lack."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_type_hints

from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from mqdlq.model import (
    Action,
    AttemptState,
    AuditKind,
    Disposition,
    Outcome,
    QueueKind,
    RampPhase,
    RestorationState,
)
from mqdlq.reasons import Reason

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",  # SQLAlchemy's default
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",  # as PostgreSQL does
    }
)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time, stored as UTC: SQLite stores no time zone."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC and drop the zone."""
        del dialect
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        del dialect
        return None if value is None else value.replace(tzinfo=UTC)


class Words(TypeDecorator[tuple[str, ...]]):
    """Words without blanks in them, stored in one text, a blank between them."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: Dialect) -> str:
        del dialect
        return " ".join(value or ())

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[str, ...]:
        del dialect
        return tuple((value or "").split())


class Kind(TypeDecorator[StrEnum]):
    """A member of an enumeration, stored as its value; a value that has no member is an error."""

    impl = String
    cache_ok = True

    def __init__(self, members: type[StrEnum], length: int) -> None:
        """Store values of an enumeration in a text of this length."""
        super().__init__(length)
        self.members = members

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        """Return a plain text: drivers take longer to find out what a member is."""
        del dialect
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        """Return the member; null where the column of an outer join has no row."""
        del dialect
        return None if value is None else self.members(value)


class Because(TypeDecorator[Reason]):
    """A reason, stored as its code and its values in JSON; "" for none."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Reason | None, dialect: Dialect) -> str:
        del dialect
        return "" if value is None else value.stored

    def process_result_value(self, value: str | None, dialect: Dialect) -> Reason | None:
        """Read the stored form; null where the column of an outer join has no row."""
        del dialect
        return Reason.read(value or "")


RunId = Annotated[str, String(250)]
HandlerName = Annotated[str, String(100)]
ObjectName = Annotated[str, String(48)]
CauseId = Annotated[str, String(12)]
Digest = Annotated[str, String(64)]
"""The fields of records that are texts of a limited length; any other text has no limit."""

TYPES: Final[dict[Any, TypeEngine[Any]]] = {
    str: Text(),
    int: Integer(),
    bool: Boolean(),
    float: Float(),
    bytes: LargeBinary(32),  # all of them are SHA-256
    datetime: UtcDateTime(),
    tuple[str, ...]: Words(),
    Reason: Because(),
    Action: Kind(Action, 10),
    AttemptState: Kind(AttemptState, 25),
    AuditKind: Kind(AuditKind, 30),
    Disposition: Kind(Disposition, 20),
    Outcome: Kind(Outcome, 20),
    QueueKind: Kind(QueueKind, 20),
    RampPhase: Kind(RampPhase, 10),
    RestorationState: Kind(RestorationState, 20),
}
"""By the type of a field: the type of its column."""


def table(name: str, record: type, *items: SchemaItem, without: Collection[str] = ()) -> Table:
    """Declare the table of a record: what `items` declare, and a column for each other field.

    The annotation of a field says the type of its column, and whether it may be null. `without`
    names fields that another table holds.
    """
    own = [item for item in items if isinstance(item, Column)]
    others = [item for item in items if not isinstance(item, Column)]
    derived = columns(record, without={column.name for column in own} | {*without})
    return Table(name, metadata, *own, *derived, *others)  # an index needs its columns first


def columns(record: type, *, without: Collection[str] = (), key: bool = False) -> list[Column[Any]]:
    """Return the columns for the fields of a record; with `key` they are a part of the key."""
    hints = get_type_hints(record, include_extras=True)
    return [_column(name, hint, key=key) for name, hint in hints.items() if name not in without]


def _column(name: str, hint: Any, *, key: bool) -> Column[Any]:
    is_optional = NoneType in get_args(hint)
    kind = get_args(hint)[0] if is_optional else hint
    (stored,) = getattr(kind, "__metadata__", None) or (TYPES[kind],)
    if key:
        return Column(name, stored, primary_key=True, autoincrement=False)
    return Column(name, stored, nullable=is_optional and kind is not Reason)  # none is stored as ""


def seq() -> Column[int]:
    """Return the key of a table whose rows the database numbers in the order they are added."""
    return Column("seq", Integer, primary_key=True, autoincrement=True)


def of_run(name: str = "run_id", **options: Any) -> Column[str]:
    """Return a column that refers to a run."""
    return Column(name, ForeignKey("runs.run_id"), **options)


def of_message(**options: Any) -> Column[int]:
    """Return a column that refers to a message."""
    return Column("message_id", ForeignKey("messages.message_id"), **options)


def at(name: str = "at") -> Column[datetime]:
    """Return a column that says when a row was added, or what it states happened."""
    return Column(name, UtcDateTime, nullable=False)
