"""Retry policies, questions to a person, and a task's state, also before Airflow 3.3.

Airflow 3.3 brought all three. For Airflow 3.1 and 3.2 this module does the same by older means; no
other module distinguishes versions. Names that have only moved come from the provider
common.compat.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NoReturn

import airflow.sdk
from airflow.providers.common.compat.sdk import AirflowFailException, DownstreamTasksSkipped
from airflow.sdk import BaseOperator, Context, TaskInstanceState

if TYPE_CHECKING:
    from airflow.sdk import CronDataIntervalTimetable, RetryPolicy
else:
    RetryPolicy = getattr(airflow.sdk, "RetryPolicy", object)
    try:
        from airflow.sdk import CronDataIntervalTimetable
    except ImportError:  # Airflow 3.1
        from airflow.timetables.interval import CronDataIntervalTimetable

__all__ = ["CronDataIntervalTimetable", "RetryPolicy"]

HAS_RETRY_POLICIES: Final = hasattr(airflow.sdk, "RetryPolicy")
CAN_SHOW_THE_PAGE: Final = HAS_RETRY_POLICIES
"""Whether Airflow is at least 3.3, whose checks of access the operator's page relies on."""

AWAITS_PERSON: Final = getattr(TaskInstanceState, "AWAITING_INPUT", TaskInstanceState.DEFERRED)
"""Airflow's state of a task that waits for a person's answer."""


def policy_plugins() -> Any:
    """Return what has the cluster policies of this process."""
    from airflow import settings  # noqa: PLC0415 (it reads the configuration)

    find = getattr(settings, "get_policy_plugin_manager", None)
    return find() if find else settings.POLICY_PLUGIN_MANAGER


class PolicedOperator(BaseOperator):
    """An operator whose retry policy decides about its failures, in any version of Airflow.

    Before Airflow 3.3 a lasting fault ends the task at once, too. The pause before the next attempt
    after any other fault is the task's `retry_delay`, and not the policy's.
    """

    def __init__(self, *, retry_policy: Any = None, **kwargs: Any) -> None:
        if HAS_RETRY_POLICIES:
            kwargs["retry_policy"] = retry_policy
        super().__init__(**kwargs)
        if not HAS_RETRY_POLICIES:
            self.retry_policy = retry_policy

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Have the policy decide about what `execute` raises, if Airflow does not ask it."""
        super().__init_subclass__(**kwargs)
        if HAS_RETRY_POLICIES:
            return
        execute = cls.execute

        @wraps(execute)
        def policed(self: PolicedOperator, context: Context) -> Any:
            with fail_for_lasting_faults(self.retry_policy, context):
                return execute(self, context)

        cls.execute = policed  # type: ignore[assignment, method-assign]

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        """Continue after a deferral."""
        if HAS_RETRY_POLICIES:
            return super().resume_execution(next_method, next_kwargs, context)
        with fail_for_lasting_faults(self.retry_policy, context):
            return super().resume_execution(next_method, next_kwargs, context)


@contextmanager
def fail_for_lasting_faults(policy: Any, context: Context) -> Iterator[None]:
    """Turn a fault for which the policy gives up into the failure that Airflow does not retry."""
    try:
        yield
    except (AirflowFailException, DownstreamTasksSkipped):
        raise
    except Exception as error:
        ti = context["ti"]
        if policy is None or not policy.reason_to_fail(error, ti.try_number, ti.max_tries):
            raise
        raise AirflowFailException(str(error)) from error


def wait_for_person(
    task: BaseOperator,
    context: Context,
    *,
    options: list[str],
    default: str,
    within: timedelta,
    then: str,
) -> NoReturn:
    """Leave the worker until a person has answered; Airflow then calls the task's method `then`.

    The question is in Airflow already. Without an answer `within` this time, the method is called
    with the default. Before Airflow 3.3 the triggerer looks for the answer.
    """
    try:
        from airflow.sdk.exceptions import TaskAwaitingInput  # noqa: PLC0415 (from Airflow 3.3)
    except ImportError:
        from airflow.providers.standard.triggers.hitl import HITLTrigger  # noqa: PLC0415 (before it)

        trigger = HITLTrigger(
            ti_id=context["ti"].id,
            options=options,
            params={},
            defaults=[default],
            timeout_datetime=datetime.now(UTC) + within,  # noqa: TID251 (a task is an entry point)
        )
        task.defer(trigger=trigger, method_name=then)
    raise TaskAwaitingInput(method_name=then, timeout=within)


def write_json_logs() -> None:
    """Have this process write its log as JSON, if Airflow 3.1 ignores `[logging] json_logs`."""
    from airflow.configuration import conf  # noqa: PLC0415 (tasks do without it)

    if "json_logs" in conf.configuration_description["logging"]["options"]:
        return
    from airflow._shared.logging import configure_logging  # noqa: PLC0415 (moved after 3.1)
    from airflow.logging_config import load_logging_config  # noqa: PLC0415 (the same)

    configure_logging(
        json_output=True,
        log_level=conf.get("logging", "logging_level"),
        stdlib_config=load_logging_config()[0],
    )


def task_state(context: Context, keeper: str) -> Any:
    """Return a store with `get(key)` and `set(key, value)` that outlives an attempt of the task.

    Before Airflow 3.3 the values are XComs of the task `keeper`: Airflow removes those of the task
    itself when its next attempt begins.
    """
    if "task_state_store" in context:
        return context["task_state_store"]
    return _XComsOf(keeper, context["ti"])


class _XComsOf:
    def __init__(self, task_id: str, ti: Any) -> None:
        self._task_id = task_id
        self._ti = ti

    def get(self, key: str) -> Any:
        return self._ti.xcom_pull(task_ids=self._task_id, key=key)

    def set(self, key: str, value: Any) -> None:
        from airflow.sdk.execution_time.xcom import XCom  # noqa: PLC0415 (only within a task)

        ti = self._ti
        XCom.set(key, value, dag_id=ti.dag_id, task_id=self._task_id, run_id=ti.run_id)
