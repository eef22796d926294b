"""Choose the pools of handlers' tasks; warn if two handlers of one queue share no pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from airflow.sdk import get_parsing_context
from airflow.sdk.exceptions import AirflowException

from mqdlq.airflow.hooks.ibmmq import MqHook
from mqdlq.errors import MqDlqError
from mqdlq.handlers import Handler, load_handlers
from mqdlq.ledger.tables import Run
from mqdlq.stages.run_options import read_control_data

AIRFLOWS_OWN: Final = "default_pool"
"""Airflow's own pool, which has many slots by default."""

Place = tuple[str, str, str]


def pools_of(handlers: list[Handler]) -> dict[str, str]:
    """Return each handler's pool by its name: the one it names, or a new pool of one slot.

    The new pool is created when a run starts. Handlers with the same connection and the same INPUTQ
    that name no pool share it, and it has the name of the first of them. Deferred tasks take no
    slot, so the passes of overlapping runs take turns, and none waits for another's RETRYINT. A
    running task already has its pool, so the rules tables are not read for it.
    """
    is_for_a_task = get_parsing_context().task_id is not None
    places = {} if is_for_a_task else _places([one for one in handlers if not one.pool])
    return {handler.name: _pool(handler, places) for handler in handlers}


def shared_without_a_pool(handler: Handler, run: Run) -> Iterator[str]:
    """Yield a warning for each other handler of the run's queue that does not share its pool.

    Evaluations and passes are one at a time where they take their slots from one pool of one slot,
    as those of one handler do; Airflow's default has many. Executors that meet wait for each other
    at the state queue: nothing is done twice, but the second holds a worker meanwhile.
    """
    handlers, control = load_handlers(handler.directory)[0], read_control_data(handler)
    is_blank_ours = control is None or not control.input_q.strip()
    places = _places([one for one in handlers if not one.pool])
    own = _pool(handler, places)
    for other in handlers:
        if other.name == handler.name or not _reads(other, run, is_blank_ours=is_blank_ours):
            continue
        its = _pool(other, places)
        if its != own or own == AIRFLOWS_OWN:
            yield (
                f"{handler.name} (pool: {own}) and {other.name} (pool: {its}) both"
                f" handle {run.queue} of {run.queue_manager}; give both one pool of one slot, or"
                " one waits in a worker while the other executes [MQDLQ-129]"
            )


def _pool(handler: Handler, places: Mapping[str, Place]) -> str:
    if handler.pool:
        return handler.pool
    place = places.get(handler.name)
    rivals = [name for name, other in places.items() if other == place]
    return f"mq_dlq_{min([handler.name, *rivals])}"


def _places(handlers: list[Handler]) -> dict[str, Place]:
    """Return connection, INPUTQM and INPUTQ of those handlers that have one of theirs in common."""
    connections = Counter(handler.connection for handler in handlers)
    found = {}
    for handler in handlers:
        if connections[handler.connection] > 1:
            control = read_control_data(handler)
            if control is not None:
                q_mgr, queue = control.input_q_mgr.strip(), control.input_q.strip()
                found[handler.name] = (handler.connection, q_mgr, queue)
    return found


def _reads(other: Handler, run: Run, *, is_blank_ours: bool) -> bool:
    control = read_control_data(other)
    if control is None:
        return False
    try:
        place = control.input_q_mgr or MqHook(other.connection).settings().queue_manager
    except (MqDlqError, AirflowException):  # the other handler's run reports its fault
        return False
    queue = control.input_q.strip()
    is_same = queue == run.queue or (not queue and is_blank_ours)
    return is_same and place == run.queue_manager
