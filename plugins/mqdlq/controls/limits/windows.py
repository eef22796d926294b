"""Cron expressions, as Airflow takes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from typing import Annotated, Final, Self
from zoneinfo import ZoneInfo

from croniter import croniter
from pydantic import ConfigDict, Field, field_validator, model_validator

from mqdlq.controls import Keys

CRON_FIELDS: Final = 5
"""Croniter would take a sixth, of seconds, and a seventh, of years."""

_RANDOM: Final = re.compile(r"(?i)(^|\s)r(\(|\s)")
"""A field for which croniter takes any moment of its choice, another one at each reading."""


def is_cron(schedule: str) -> bool:
    """Whether Airflow can go by it: to the minute, the same at each reading, and ever due."""
    is_preset = schedule.startswith("@")
    if not is_preset and (len(schedule.split()) != CRON_FIELDS or _RANDOM.search(schedule)):
        return False
    try:
        croniter(schedule, 0).get_next()
    except ValueError:
        return False
    return True


# Windows in which a destination takes nothing: they begin by a cron expression in a time zone.

_LARGEST_SHIFT: Final = timedelta(hours=2)
"""No zone sets its clocks back by more at once in a change of summer time."""
_STARTS_TO_COMPARE: Final = 10_100
"""As many minutes as there are in a week."""
_SOME_DAY: Final = datetime(2026, 1, 1)  # noqa: DTZ001 (a local time of any zone)


class ClosedWindow(Keys):
    """A window that begins whenever its cron expression is due, and lasts for a time."""

    model_config = ConfigDict(validate_by_name=True)

    cron: str
    """When a window begins: a cron expression such as `0 22 * * *`."""
    lasts: Annotated[timedelta, Field(alias="for", gt=timedelta(0), le=timedelta(days=31))]
    """How long one lasts."""
    time_zone: str = "UTC"
    """Time zone of `cron`: a name of the IANA database."""

    @field_validator("cron")
    @classmethod
    def _is_a_cron_expression(cls, value: str) -> str:
        if not is_cron(value):
            raise ValueError(
                f"{value!r} is not a cron expression; expected five fields such as '0 22 * * *'"
            )
        return value

    @field_validator("time_zone")
    @classmethod
    def _is_a_time_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ValueError, OSError, KeyError):
            raise ValueError(
                f"{value!r} is not a time zone; expected a name such as 'Europe/Berlin' or 'UTC'"
            ) from None
        return value

    @model_validator(mode="after")
    def _opens_again(self) -> Self:
        starts = islice(croniter(self.cron, _SOME_DAY).all_next(datetime), _STARTS_TO_COMPARE)
        if not any(later - start > self.lasts for start, later in pairwise(starts)):
            raise ValueError(
                f"windows of {self.lasts} that begin at {self.cron!r} follow each other without a"
                " gap: the destination would never take a message"
            )
        return self


def find_reopening(windows: tuple[ClosedWindow, ...], now: datetime) -> datetime | None:
    """Return when the last of the windows that are closed now ends, or None if none is closed.

    `now` and the result are aware.
    """
    ends = (_find_end(window, now.replace(second=0, microsecond=0)) for window in windows)
    return max((end for end in ends if end is not None and end > now), default=None)


@lru_cache(maxsize=1024)
def _find_end(window: ClosedWindow, minute: datetime) -> datetime | None:
    """Return the end of the last window that has begun by this minute, None if there is none.

    A start in the hour that a clock skips counts from the time that the clock then shows. A start
    in the hour that a clock repeats counts twice, so that the window is closed in both.
    """
    zone = ZoneInfo(window.time_zone)
    shown = minute.astimezone(zone).replace(tzinfo=None)
    earliest = shown - window.lasts - _LARGEST_SHIFT
    ends = []
    for start in croniter(window.cron, shown + _LARGEST_SHIFT).all_prev(datetime):
        if start < earliest:
            break
        for fold in (0, 1):
            began = start.replace(tzinfo=zone, fold=fold).astimezone(UTC)
            # A time that the clock skips is an hour too early with fold=1.
            is_shown = began.astimezone(zone).replace(tzinfo=None) == start
            if began <= minute and (fold == 0 or is_shown):
                ends.append(began + window.lasts)
    return max(ends, default=None)
