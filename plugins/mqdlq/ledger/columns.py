"""How a table is declared by its record, and kinds of columns that SQL databases lack."""

from collections.abc import Collection
from datetime import UTC, datetime
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_type_hints

import sqlalchemy as sa
from sqlalchemy.schema import SchemaItem

from mqdlq import model
from mqdlq.reasons import Reason

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",  # SQLAlchemy's default
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",  # as PostgreSQL does
    }
)


class UtcDateTime(sa.TypeDecorator[datetime]):
    """An aware time, stored as UTC: SQLite stores no time zone."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Any) -> datetime | None:
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, _dialect: Any) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


class Words(sa.TypeDecorator[tuple[str, ...]]):
    """Words without blanks in them, stored in one text, a blank between them."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, _dialect: Any) -> str:
        return " ".join(value or ())

    def process_result_value(self, value: str | None, _dialect: Any) -> tuple[str, ...]:
        return tuple((value or "").split())


class Kind(sa.TypeDecorator[StrEnum]):
    """A member of an enumeration, stored as its value; a value that has no member is an error."""

    impl = sa.String
    cache_ok = True

    def __init__(self, members: type[StrEnum], length: int) -> None:
        super().__init__(length)
        self.members = members

    def process_bind_param(self, value: StrEnum | None, _dialect: Any) -> str | None:
        return None if value is None else str(value)  # drivers take longer to find out what it is

    def process_result_value(self, value: str | None, _dialect: Any) -> StrEnum | None:
        return None if value is None else self.members(value)


class Because(sa.TypeDecorator[Reason]):
    """A reason, stored as its code and its values in JSON; "" for none."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Reason | None, _dialect: Any) -> str:
        return "" if value is None else value.stored

    def process_result_value(self, value: str | None, _dialect: Any) -> Reason | None:
        return Reason.read(value or "")  # null where the column of an outer join has no row


RunId = Annotated[str, sa.String(250)]
HandlerName = Annotated[str, sa.String(100)]
ObjectName = Annotated[str, sa.String(48)]
CauseId = Annotated[str, sa.String(12)]
Digest = Annotated[str, sa.String(64)]
"""The fields of records that are texts of a limited length; any other text has no limit."""

TYPES: Final[dict[Any, sa.types.TypeEngine[Any]]] = {
    str: sa.Text(),
    int: sa.Integer(),
    bool: sa.Boolean(),
    float: sa.Float(),
    bytes: sa.LargeBinary(32),  # all of them are SHA-256
    datetime: UtcDateTime(),
    tuple[str, ...]: Words(),
    Reason: Because(),
    model.Action: Kind(model.Action, 10),
    model.AttemptState: Kind(model.AttemptState, 25),
    model.AuditKind: Kind(model.AuditKind, 30),
    model.ChangeKind: Kind(model.ChangeKind, 20),
    model.Disposition: Kind(model.Disposition, 20),
    model.Outcome: Kind(model.Outcome, 20),
    model.QueueKind: Kind(model.QueueKind, 20),
    model.RampPhase: Kind(model.RampPhase, 10),
    model.RestorationState: Kind(model.RestorationState, 20),
}
"""By the type of a field: the type of its column."""


def table(name: str, record: type | None, *items: SchemaItem, **options: Any) -> sa.Table:
    """Declare a table: what `items` declare, and a column for each other field of its record.

    The annotation of a field says the type of its column, and whether it may be null.
    """
    own = [item for item in items if isinstance(item, sa.Column)]
    others = [item for item in items if not isinstance(item, sa.Column)]
    derived = columns(record, without={column.name for column in own}) if record else []
    # An index needs its columns first.
    return sa.Table(name, metadata, *own, *derived, *others, **options)


views = sa.MetaData()
"""The views, which are read like tables; `create_all` would make tables of them."""


def columns(
    record: type, *, without: Collection[str] = (), key: bool = False
) -> list[sa.Column[Any]]:
    """Return the columns for the fields of a record; with `key` they are a part of the key."""
    hints = get_type_hints(record, include_extras=True)
    return [column(name, hint, key=key) for name, hint in hints.items() if name not in without]


def column(name: str, hint: Any, *, key: bool = False, **options: Any) -> sa.Column[Any]:
    is_optional = NoneType in get_args(hint)
    kind = get_args(hint)[0] if is_optional else hint
    (stored,) = getattr(kind, "__metadata__", None) or (TYPES[kind],)
    if key:
        return sa.Column(name, stored, primary_key=True, autoincrement=False, **options)
    is_nullable = is_optional and kind is not Reason  # none is stored as ""
    return sa.Column(name, stored, nullable=is_nullable, **options)


def seq() -> sa.Column[int]:
    """Return the key of a table whose rows the database numbers in the order they are added."""
    return sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True)


def refer_to(key: Any, name: str = "", **options: Any) -> sa.Column[Any]:
    """Return a column that refers to a key, by default with its name; it is not null."""
    options = {"nullable": False, **options}
    return sa.Column(name or str(key).rpartition(".")[2], sa.ForeignKey(key), **options)
