"""Airflow's cluster policy: reject DAGs that would get dead letters off a handled queue.

The trigger of Airflow's own IBM MQ provider gets messages outside syncpoint: each is off the queue
before any task has seen it. Airflow finds this module by its entry point `airflow.policy`, and
imports it in each of its processes: it imports ours only for a DAG with that trigger.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from airflow.exceptions import AirflowClusterPolicyViolation
from airflow.policies import hookimpl

if TYPE_CHECKING:
    from mqdlq.handlers import Handler

TAKES: Final = "airflow.providers.ibm.mq.triggers.mq.AwaitMessageTrigger"
USUAL_DLQ: Final = "SYSTEM.DEAD.LETTER.QUEUE"


@hookimpl
def dag_policy(dag: Any) -> None:
    for trigger in _triggers(dag):
        path, kwargs = trigger.serialize()
        if path != TAKES:
            continue
        for handler in _handlers():
            queue = str(kwargs.get("queue_name", "")).strip()
            if kwargs.get("mq_conn_id") == handler.connection and queue in _queues(handler):
                raise AirflowClusterPolicyViolation(
                    f"{dag.dag_id}: AwaitMessageTrigger would take messages off {queue} outside"
                    f" syncpoint, and handler {handler.name} handles that queue; follow the asset"
                    f" mq_dlq_{handler.name}.report instead, or name another queue [MQDLQ-307]"
                )


def _handlers() -> list[Handler]:
    """Return the handlers of MQDLQ_RULES_DIR; none if the directory cannot be used.

    DAGs of other people are not refused because of our settings.
    """
    from mqdlq.errors import HomeError  # noqa: PLC0415 (see above)
    from mqdlq.handlers import load_handlers  # noqa: PLC0415 (the same)

    try:
        return load_handlers()[0]
    except HomeError:
        return []


def _queues(handler: Handler) -> set[str]:
    control = handler.control_data()
    named = control.input_q.strip() if control is not None else ""
    return {named or USUAL_DLQ, handler.state_queue}


def _triggers(dag: Any) -> Iterator[Any]:
    for asset in _assets(getattr(dag.timetable, "asset_condition", None)):
        for watcher in getattr(asset, "watchers", ()):
            yield watcher.trigger
    for held in (held for task in dag.tasks for held in vars(task).values()):
        if any(base.__name__ == "BaseTrigger" for base in type(held).__mro__):
            yield held


def _assets(condition: Any) -> Iterator[Any]:
    """Yield the assets of a condition: one itself, or all and any of several, as deep as it is."""
    parts = getattr(condition, "objects", None)
    if parts is None:
        yield condition
    for part in parts or ():
        yield from _assets(part)
