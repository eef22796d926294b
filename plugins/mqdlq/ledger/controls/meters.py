"""Meters: the rates that handlers limit, shared by all runs with this ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, insert, select, update

from mqdlq.ledger.database import Repository, in_turn
from mqdlq.ledger.tables.controls import meters

STRICTER_LIMIT_APPLIES_FOR: Final = timedelta(hours=1)
"""How long the stricter limit of another handler applies after that handler last used it."""

_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Meter:
    """The subject of a rate (a handler, a queue manager or a queue) and its unit."""

    subject: str
    unit: str


@dataclass(frozen=True, slots=True)
class Rate:
    """A limit: the number in a second, and the number at once after a pause."""

    per_second: float
    burst: float


@dataclass(frozen=True, slots=True)
class Reservation:
    """A part of a rate that a run has reserved, or was refused.

    The run may use it from `ready_at`. `duration` is how long the rate takes for it; it is zero for
    a refusal.
    """

    ready_at: datetime
    duration: timedelta


class Meters(Repository):
    """Reserve parts of limited rates, each in one short transaction.

    A crash loses what its run has reserved and not used: the rate is lower then, never higher.
    """

    def reserve(
        self,
        meter: Meter,
        rate: Rate,
        amount: float,
        *,
        handler: str,
        now: datetime,
        latest: datetime,
    ) -> Reservation:
        """Reserve an amount unless it would be ready after `latest`; return when it is ready.

        The meter is a token bucket. An amount above the burst is ready when the bucket is full, and
        is paid for in full. If another handler has a stricter limit for the same meter, that limit
        applies while the other handler uses it, and for an hour more.
        """
        with in_turn(self._engine) as connection:
            row = _find(connection, meter)
            rate, owner, used_at = _choose_stricter(row, rate, handler, now)
            full_at = max(now, row["full_at"]) if row else now
            missing = (min(amount, rate.burst) - rate.burst) / rate.per_second
            ready_at = max(now, full_at + timedelta(seconds=missing))
            duration = timedelta(seconds=amount / rate.per_second)
            if ready_at > latest:
                duration = timedelta(0)
            values = {"handler": owner, "used_at": used_at, "full_at": full_at + duration}
            _write(connection, meter, row, {**values, **asdict(rate)})
        return Reservation(ready_at, duration)

    def give_back(self, meter: Meter, duration: timedelta) -> None:
        """Give back the unused part of a reservation, as the time that the rate takes for it."""
        with in_turn(self._engine) as connection:
            row = _find(connection, meter)
            if row is not None:
                _write(connection, meter, row, {"full_at": row["full_at"] - duration})

    def record_refusal(self, meter: Meter, run_id: str, until: datetime) -> None:
        """Record until when a run waits; a meter knows the last run that was refused."""
        with in_turn(self._engine) as connection:
            row = _find(connection, meter)
            _write(connection, meter, row, {"refused_run_id": run_id, "refused_until": until})

    def refusals(self, run_id: str, now: datetime) -> dict[Meter, datetime]:
        """Return the meters that a run waits for now, with the times until which it waits."""
        query = select(meters.c.subject, meters.c.unit, meters.c.refused_until).where(
            meters.c.refused_run_id == run_id, meters.c.refused_until > now
        )
        return {
            Meter(row["subject"], row["unit"]): row["refused_until"] for row in self._all(query)
        }


def _choose_stricter(
    row: RowMapping | None, rate: Rate, handler: str, now: datetime
) -> tuple[Rate, str, datetime]:
    """Return the limit that applies, the handler that has it, and when that handler used it."""
    if row is None or row["handler"] in {"", handler}:
        return rate, handler, now
    other = Rate(row["per_second"], row["burst"])
    is_stricter = (other.per_second, other.burst) < (rate.per_second, rate.burst)
    if is_stricter and row["used_at"] > now - STRICTER_LIMIT_APPLIES_FOR:
        return other, row["handler"], row["used_at"]
    return rate, handler, now


def _find(connection: Connection, meter: Meter) -> RowMapping | None:
    return connection.execute(select(meters).where(_is(meter))).mappings().first()


def _write(
    connection: Connection, meter: Meter, row: RowMapping | None, values: Mapping[str, Any]
) -> None:
    if row is not None:
        connection.execute(update(meters).where(_is(meter)).values(values))
        return
    unused = {"handler": "", "per_second": 0.0, "burst": 0.0, "refused_run_id": ""}
    times = dict.fromkeys(("used_at", "full_at", "refused_until"), _NEVER)
    connection.execute(insert(meters), {**asdict(meter), **unused, **times, **values})


def _is(meter: Meter) -> ColumnElement[bool]:
    return and_(meters.c.subject == meter.subject, meters.c.unit == meter.unit)
