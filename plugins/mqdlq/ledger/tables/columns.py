"""Columns that several tables share, and kinds of columns that SQL databases lack."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Text,
    TypeDecorator,
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
        """Put the zone back."""
        del dialect
        return None if value is None else value.replace(tzinfo=UTC)


class Words(TypeDecorator[tuple[str, ...]]):
    """Words without blanks in them, stored in one text, a blank between them."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: Dialect) -> str:
        """Join the words."""
        del dialect
        return " ".join(value or ())

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[str, ...]:
        """Split the text into words."""
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
        """Return the stored form."""
        del dialect
        return "" if value is None else value.stored

    def process_result_value(self, value: str | None, dialect: Dialect) -> Reason | None:
        """Read the stored form; null where the column of an outer join has no row."""
        del dialect
        return Reason.read(value or "")


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


def target() -> tuple[Column[str], Column[str]]:
    """Return the columns of the queue that a message was put to."""
    return (
        Column("target_q", String(48), nullable=False),
        Column("target_q_mgr", String(48), nullable=False),
    )


def decision() -> tuple[Column[Any], ...]:
    """Return the columns that say which rule decided, on which action and target."""
    return (
        Column("rule", Integer, nullable=False),
        Column("action", String(10), nullable=False),
        *target(),
    )
