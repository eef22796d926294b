"""How a handler is run by Airflow: the keys of its YAML file that say when, by whom, how many."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self

from croniter import croniter
from pydantic import Field, field_validator, model_validator

from mqdlq.controls import Keys
from mqdlq.controls.evidence import Evidence
from mqdlq.controls.limits import is_cron
from mqdlq.model import Declared

TASK_RETRIES: Final = 3
"""How often Airflow runs a task again after a transient fault, unless the handler says otherwise.

With the delays between them the attempts span more than four minutes: a queue manager that fails
over to its standby, or restarts, is back by then.
"""

STARTS_MISSED: Final = 3
"""The number of scheduled starts without a run after which a handler is overdue."""

CONTINUOUS: Final = "@continuous"
"""The schedule that starts the next run as soon as the last one has ended; one run at a time."""

EVENT: Final = "event"
"""The schedule that starts a run when there is something to do: a trigger watches the queue."""

Tag = Annotated[str, Field(min_length=1, max_length=100)]


class GuardedAction(StrEnum):
    """An action that can need a second person; in a handler's file it is in lower case."""

    DISCARD = "discard"
    FWD = "fwd"
    RETRY = "retry"


class ApprovalGuards(Keys):
    """The conditions under which a run waits for a person's approval; all are off by default."""

    discard: bool = False
    """A rule would discard messages."""
    messages: Annotated[int | None, Field(ge=0)] = None
    """The run would act on more messages than this number."""
    new_cause: bool = False
    """A message has a cause that no earlier acting run met on this queue."""
    changed_rules: bool = False
    """The rules differ from the rules of the last run that acted."""
    new_target: bool = False
    """A rule names a queue that no message was moved to from this queue yet."""
    second_person: tuple[GuardedAction, ...] = ()
    """Actions that need a second person: a plan with one of them needs the approval of a person
    other than the one who started the run."""
    timeout: Annotated[timedelta, Field(ge=timedelta(seconds=30))] = timedelta(hours=12)
    """Time for the answer; after it, the plan is rejected. It must be shorter than
    `max_plan_age`."""


class Event(Declared):
    """The subject of an alert, its meaning, and whether it lasts; in the order of alerts.

    When an event that lasts is over, the alert is `recovery`. An event with the name of an outcome
    means that messages have this outcome.
    """

    FIRST_ARRIVAL = "first_arrival", "messages arrived on an empty queue", False
    NEW_CAUSE = "new_cause", "a cause that is new on this queue", False
    GROWTH = "growth", "many more messages than in the last run", False
    OLDEST_AGE = "oldest_age", "a message has been on the queue for too long", True
    EXPIRING = "expiring", "messages expire before the next run", False
    UNPROCESSABLE = "unprocessable", "messages without a valid MQDLH", True
    EXHAUSTED = "exhausted", "messages whose matching rules used all their attempts", True
    QUARANTINED = "quarantined", "messages that come back each time they are moved", True
    BREAKER = "breaker", "a breaker is open: messages come back, or their puts fail", True
    UNACCOUNTED = "unaccounted", "the account does not add up", True
    FAILED = "failed", "the run failed", True
    MUTE_ENDED = "mute_ended", "the mute of a cause has ended", False
    APPROVAL = "approval", "a plan needs an approval", False
    RECOVERY = "recovery", "earlier events are over", False

    meaning: str
    lasts: bool


class Notification(Keys):
    """An Airflow notifier, and the events that it is called for."""

    notifier: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
    """Path of the notifier's class, such as
    `airflow.providers.smtp.notifications.smtp.SmtpNotifier`."""
    events: tuple[Event, ...] = ()
    """Events to notify of; unset: all."""
    arguments: Mapping[str, Any] = {}
    """Arguments of the notifier. Text is a template that knows `alert.event`, `alert.title`,
    `alert.text`, `alert.address`, `alert.handler` and `alert.run_id`; no message's body is among
    them."""


class Alerts(Keys):
    """The thresholds of alerts, and the notifiers that send them."""

    growth: Annotated[int, Field(ge=1)] = 100
    """Messages more than at the last run that raise `growth`."""
    oldest_age: Annotated[timedelta, Field(gt=timedelta(0))] = timedelta(days=1)
    """Age of a message that raises `oldest_age`."""
    notify: tuple[Notification, ...] = ()
    """The notifiers; without any, none is called."""


class Operation(Keys):
    """When a handler runs, and how it appears in Airflow."""

    schedule: str | None = None
    """When runs start: a cron expression in UTC, a preset such as `@hourly`, `@continuous` (each
    run starts when the last one has ended), or `event` (a run starts when the queue has work).
    Unset: runs are started by hand."""
    dry_run: bool = False
    """No run of this handler acts; its reports say what a run would do."""
    owner: Annotated[str, Field(min_length=1, max_length=500)] = "mqdlq"
    """Owner of the DAG in Airflow."""
    tags: tuple[Tag, ...] = ()
    """Tags of the DAG in Airflow."""
    evidence: Evidence = Evidence()
    """Records of the queue manager about the queue, as wake-ups and checks: see
    [evidence](#evidence)."""
    rescan_interval: Annotated[timedelta | None, Field(ge=timedelta(seconds=1))] = None
    """Time after which settled messages are work again; unset: ten times RETRYINT."""
    max_active_runs: Annotated[int, Field(ge=1, le=100)] = 4
    """Highest number of runs at the same time. Each message belongs to one of them. With
    `@continuous` it is 1."""
    pool: Annotated[str | None, Field(min_length=1, max_length=256)] = None
    """Airflow pool for evaluations and passes; unset: `mq_dlq_<handler>`. Handlers with the same
    connection and INPUTQ share a pool. Two handlers that reach one queue in different ways need the
    same pool. If the pool does not exist, a run creates it with one slot."""
    evaluate_timeout: Annotated[timedelta, Field(ge=timedelta(minutes=1))] = timedelta(hours=2)
    """Time after which the evaluation fails, for example when the cluster has no free executors."""
    task_retries: Annotated[int, Field(ge=0, le=10)] = TASK_RETRIES
    """How often Airflow runs a task again after a [transient failure](mq-failures.md), such as a
    lost connection: after 20 seconds, one minute and three minutes. Any other failure, such as a
    missing authority, fails the task at once."""
    require_reason: bool = False
    """A run or restoration that a person starts, and that acts, needs the parameter `why`."""
    approval: ApprovalGuards = ApprovalGuards()
    """When a run waits for [approval](#approval)."""
    approvers: tuple[str, ...] = ()
    """Ids of the users in Airflow who may answer when a run waits for approval; unset: everyone who
    may answer the required actions of the DAG."""
    attention: Literal["note", "fail"] = "note"
    """Result of a run in Airflow that leaves messages that need attention. `note`: it succeeds, and
    its note says so. `fail`: its task `report` fails, too."""
    alerts: Alerts = Alerts()
    """Which [alerts](#alerts) are sent, and where."""

    @field_validator("approvers", mode="before")
    @classmethod
    def _are_user_ids(cls, value: Any) -> tuple[str, ...]:
        ids = [str(one).strip() for one in value] if isinstance(value, list | tuple) else [""]
        if not all(ids):
            raise ValueError(
                f"{value!r} is not a list of the ids of users; expected, for example, [alice, bob]"
            )
        return tuple(ids)

    @field_validator("schedule")
    @classmethod
    def _is_a_schedule(cls, value: str | None) -> str | None:
        others = (None, CONTINUOUS, EVENT)
        if value not in others and not is_cron(str(value)):
            raise ValueError(
                f"{value!r} is not a schedule; expected a cron expression such as '0 2 * * *',"
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
        return self.schedule == CONTINUOUS

    @property
    def is_by_event(self) -> bool:
        """Whether a trigger that watches the queue starts its runs."""
        return self.schedule == EVENT

    @property
    def has_intervals(self) -> bool:
        """Whether a cron schedule starts its runs, each of which has an interval of time."""
        return self.schedule is not None and not (self.is_continuous or self.is_by_event)

    def next_start(self, now: datetime) -> datetime | None:
        """Return when Airflow starts the next run, None if no clock starts it."""
        if self.schedule is None or not self.has_intervals:
            return None
        return _next_start(self.schedule, now)

    def overdue_at(self, since: datetime) -> datetime | None:
        """Return the scheduled start number STARTS_MISSED after a time, None without a clock."""
        moment: datetime | None = since
        for _ in range(STARTS_MISSED):
            moment = self.next_start(moment) if moment is not None else None
        return moment

    @property
    def runs_at_once(self) -> int:
        return 1 if self.is_continuous else self.max_active_runs


@lru_cache(maxsize=16_384)
def _next_start(schedule: str, now: datetime) -> datetime:
    """Return the next start; pages ask for the same ones of many handlers again and again."""
    found: datetime = croniter(schedule, now).get_next(datetime)
    return found
