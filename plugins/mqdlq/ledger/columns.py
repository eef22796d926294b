"""Kinds of columns that SQL databases lack: aware times, and several words in one text."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import DateTime, Dialect, Text, TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time, stored as UTC: SQLite keeps no time zone of its own."""

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
    """Words without blanks in them, stored one behind the other."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: Dialect) -> str:
        """Join them."""
        del dialect
        return " ".join(value or ())

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[str, ...]:
        """Part them."""
        del dialect
        return tuple((value or "").split())
