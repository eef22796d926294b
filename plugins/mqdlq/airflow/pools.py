"""A handler and its run in, a warning out for every handler of the same queue without its pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow.sdk.exceptions import AirflowException

from mqdlq.airflow.hook import MqHook
from mqdlq.errors import MqDlqError
from mqdlq.handlers import Handler, load_handlers
from mqdlq.ledger import Run
from mqdlq.rules import parse

NO_POOL: Final = Handler.model_fields["pool"].default


def shared_without_a_pool(handler: Handler, run: Run) -> Iterator[str]:
    """Yield a warning for each other handler of the run's queue that does not share its pool.

    Airflow runs the evaluation and the execution of one handler one at a time by itself; those of
    two handlers only where both take their slots from one pool, and not from Airflow's default,
    which has many. Executors that meet wait for each other at the state queue: nothing is done
    twice, but the second holds a worker meanwhile.
    """
    own_q = _input_q(handler)
    for other in load_handlers()[0]:
        if other.name == handler.name or not _reads(other, run, is_blank_ours=own_q == ""):
            continue
        if other.pool != handler.pool or handler.pool == NO_POOL:
            yield (
                f"{handler.name} (pool: {handler.pool}) and {other.name} (pool: {other.pool}) both"
                f" handle {run.queue} of {run.queue_manager}: give both one pool of one slot, or"
                " one waits in a worker while the other executes"
            )


def _reads(other: Handler, run: Run, *, is_blank_ours: bool) -> bool:
    """Whether another handler reads the run's queue, as far as its files and connection say."""
    try:
        source, text = other.rules_text()
        control = parse(text, source).control
        place = control.input_q_mgr or MqHook(other.connection).settings().queue_manager
    except (MqDlqError, AirflowException):  # what is wrong with the other is said when it runs
        return False
    queue = control.input_q.strip()
    is_same = queue == run.queue or (not queue and is_blank_ours)
    return is_same and place == run.queue_manager


def _input_q(handler: Handler) -> str:
    try:
        source, text = handler.rules_text()
        return parse(text, source).control.input_q.strip()
    except MqDlqError:
        return ""
