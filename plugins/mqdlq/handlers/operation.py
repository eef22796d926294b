"""How a handler is run by Airflow: the keys of its YAML file that say when, by whom, how many."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from croniter import croniter
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

TASK_RETRIES: Final = 3
"""How often Airflow runs a task again after a transient fault, unless the handler says otherwise.

With the delays between them the attempts span more than four minutes: a queue manager that fails
over to its standby, or restarts, is back by then.
"""

CONTINUOUS: Final = "@continuous"
"""The schedule that starts the next run as soon as the last one has ended; one run at a time."""

EVENT: Final = "event"
"""The schedule that starts a run when there is something to do: a trigger watches the queue."""

Tag = Annotated[str, Field(min_length=1, max_length=100)]


class ApprovalGuards(BaseModel):
    """What makes a run ask a person before it acts; nothing by default.

    `discard`: any rule that discards; `messages`: more messages to act on than this; `new_cause`: a
    reason that no run has met that acted on this queue; `changed_rules`: other rules than those of
    the last run that acted; `new_target`: a queue to which nothing was ever moved from here. Who
    says nothing `within` this time has rejected.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    discard: bool = False
    messages: Annotated[int, Field(ge=0)] | None = None
    new_cause: bool = False
    changed_rules: bool = False
    new_target: bool = False
    within: Annotated[timedelta, Field(ge=timedelta(seconds=30))] = timedelta(hours=12)


CRON_FIELDS: Final = 5
"""Croniter would take a sixth, of seconds, and a seventh, of years."""

_RANDOM: Final = re.compile(r"(?i)(^|\s)r(\(|\s)")
"""A field for which croniter takes any moment of its choice, another one at each reading."""


def _is_cron(schedule: str) -> bool:
    """Whether Airflow can go by it: to the minute, the same at each reading, and ever due."""
    is_preset = schedule.startswith("@")
    if not is_preset and (len(schedule.split()) != CRON_FIELDS or _RANDOM.search(schedule)):
        return False
    try:
        croniter(schedule, 0).get_next()
    except ValueError:
        return False
    return True


class Event(StrEnum):
    """What people are alerted to, what it means, and whether it lasts; in the order of telling.

    What lasts is over one day, and then told of as recovery. An event that has the name of an
    outcome is that messages have ended so.
    """

    FIRST_ARRIVAL = "first_arrival", "messages came to a queue that was empty"
    NEW_CAUSE = "new_cause", "a reason code that was never met on this queue before"
    GROWTH = "growth", "many more messages than at the last run"
    OLDEST_AGE = "oldest_age", "a message has been on the queue for too long", True
    UNPROCESSABLE = (
        "unprocessable",
        "messages without a valid MQDLH, which nothing can handle",
        True,
    )
    EXHAUSTED = "exhausted", "messages whose rules are all used up", True
    CONSERVATION = "conservation", "the account does not add up", True
    FAILED = "failed", "the run failed", True
    APPROVAL = "approval", "a plan waits for a person's approval"
    RECOVERY = "recovery", "what was told of before is over"

    meaning: str
    lasts: bool

    def __new__(cls, value: str, meaning: str = "", lasts: bool = False) -> Self:
        """Make a member of its declaration; to look one up takes its value alone."""
        member = str.__new__(cls, value)
        member._value_, member.meaning, member.lasts = value, meaning, lasts
        return member


class Notification(BaseModel):
    """An Airflow notifier: the path of its class, its arguments, and for which events (all)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    notifier: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
    on: tuple[Event, ...] = ()
    arguments: Mapping[str, Any] = {}


class Alerts(BaseModel):
    """Who is told, and from when on: `growth` in messages from run to run, `oldest_age`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    growth: Annotated[int, Field(ge=1)] = 100
    oldest_age: Annotated[timedelta, Field(gt=timedelta(0))] = timedelta(days=1)
    notify: tuple[Notification, ...] = ()


class Operation(BaseModel):
    """When a handler runs, and how it shows in Airflow.

    `schedule` is a cron expression in UTC, one of its presets such as @hourly, or @continuous, or
    `event`; without one a handler is run by hand. With `dry_run` no run acts, whoever starts it.
    `max_active_runs` bounds how many of its runs may overlap, most of them waiting for their
    retries. `rescan_interval` is after how long settled messages are looked at again, 10 x RETRYINT
    if it is not said. `pool` is the Airflow pool that its evaluation and passes take a slot of, one
    of its own if it is not said; where there is none of the name it is made, with one slot.
    `approval` says what makes a run ask a person first. `alerts` says who is told of what.
    `evaluate_timeout` is after how long an evaluation fails that does not end, such as one that
    waits for executors of a Spark cluster; it would keep every later one from beginning.
    `task_retries` is how often Airflow runs a task again that failed for a transient reason, such
    as a lost connection. `owner` and `tags` are those of its DAG.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schedule: str | None = None
    dry_run: bool = False
    owner: Annotated[str, Field(min_length=1, max_length=500)] = "mqdlq"
    tags: tuple[Tag, ...] = ()
    rescan_interval: Annotated[timedelta, Field(ge=timedelta(seconds=1))] | None = None
    max_active_runs: Annotated[int, Field(ge=1, le=100)] = 4
    pool: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    evaluate_timeout: Annotated[timedelta, Field(ge=timedelta(minutes=1))] = timedelta(hours=2)
    task_retries: Annotated[int, Field(ge=0, le=10)] = TASK_RETRIES
    approval: ApprovalGuards = ApprovalGuards()
    alerts: Alerts = Alerts()

    @field_validator("schedule")
    @classmethod
    def _is_a_schedule(cls, value: str | None) -> str | None:
        others = (None, CONTINUOUS, EVENT)
        if value not in others and not _is_cron(str(value)):
            raise ValueError(
                f"{value!r} is no schedule; expected a cron expression such as '0 2 * * *',"
                " '@hourly', '@daily', '@continuous' or 'event'"
            )
        return value

    @model_validator(mode="after")
    def _is_one_run_where_airflow_allows_one(self) -> Self:
        asked = self.max_active_runs if "max_active_runs" in self.model_fields_set else 1
        if self.is_continuous and asked > 1:
            raise ValueError(
                "with schedule '@continuous' Airflow allows one run: max_active_runs: 1"
            )
        return self

    @model_validator(mode="after")
    def _is_dry_by_the_clock_or_by_hand(self) -> Self:
        if self.dry_run and (self.is_continuous or self.is_by_event):
            raise ValueError(
                "a dry run leaves every message where it is, so that with schedule"
                f" {self.schedule!r} the next would begin at once: with 'dry_run' give a cron"
                " expression such as '0 * * * *', or none"
            )
        return self

    @property
    def is_continuous(self) -> bool:
        """Whether its runs follow one another without end."""
        return self.schedule == CONTINUOUS

    @property
    def is_by_event(self) -> bool:
        """Whether its runs begin when its queue has something new, by a trigger that watches it."""
        return self.schedule == EVENT

    def next_start(self, now: datetime) -> datetime | None:
        """Return when Airflow starts the next run, None where that is not by the clock."""
        if self.schedule is None or self.is_continuous or self.is_by_event:
            return None
        found: datetime = croniter(self.schedule, now).get_next(datetime)
        return found

    @property
    def runs_at_once(self) -> int:
        """How many of its runs may be under way."""
        return 1 if self.is_continuous else self.max_active_runs
