"""Choose the pools of handlers' tasks; warn if two handlers of one queue share no pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from airflow.sdk import get_parsing_context
from airflow.sdk.exceptions import AirflowException

from mqdlq.airflow.hooks.ibmmq import MqHook
from mqdlq.directories import rules_directory
from mqdlq.errors import HandlerError, MqDlqError
from mqdlq.handlers import Handler, Kept, load_handlers
from mqdlq.ledger.tables import Run
from mqdlq.stages.run_options import read_control_data

AIRFLOWS_OWN: Final = "default_pool"
"""Airflow's own pool, which has many slots by default."""

Place = tuple[str, str, str]


class Loaded(NamedTuple):
    """The valid handlers of a directory, the errors of the others, and the pools by handler."""

    handlers: list[Handler]
    faults: list[HandlerError]
    pools: dict[str, str]


def load_with_pools(directory: Path | None = None) -> Loaded:
    """Load the handlers of a directory, and parse only files that no process has parsed before."""
    with Kept("dags", directory or rules_directory()) as kept:
        handlers, faults = load_handlers(directory, kept)
        return Loaded(handlers, faults, pools_of(handlers, kept))


def pools_of(handlers: list[Handler], kept: Kept | None = None) -> dict[str, str]:
    """Return each handler's pool by its name: the one it names, or a new pool of one slot.

    The new pool is created when a run starts. Handlers with the same connection and the same INPUTQ
    that name no pool share it, and it has the name of the first of them. Deferred tasks take no
    slot, so the passes of overlapping runs take turns, and none waits for another's RETRYINT. A
    running task already has its pool, so the rules tables are not read for it.
    """
    is_for_a_task = get_parsing_context().task_id is not None
    places = {} if is_for_a_task else _places([one for one in handlers if not one.pool], kept)
    return _pools(handlers, places)


def shared_without_a_pool(handler: Handler, run: Run) -> Iterator[str]:
    """Yield a warning for each other handler of the run's queue that does not share its pool.

    Evaluations and passes are one at a time where they take their slots from one pool of one slot,
    as those of one handler do; Airflow's default has many. Executors that meet wait for each other
    at the state queue: nothing is done twice, but the second holds a worker meanwhile.
    """
    with Kept("pools", handler.directory) as kept:
        handlers, control = load_handlers(handler.directory, kept)[0], read_control_data(handler)
        is_blank_ours = control is None or not control.input_q.strip()
        places = _places([one for one in handlers if not one.pool], kept)
        others = [
            other
            for other in handlers
            if other.name != handler.name and _reads(other, run, kept, is_blank_ours=is_blank_ours)
        ]
    pools = _pools([*handlers, handler], places)
    own = pools[handler.name]
    for other in others:
        its = pools[other.name]
        if its != own or own == AIRFLOWS_OWN:
            yield (
                f"{handler.name} (pool: {own}) and {other.name} (pool: {its}) both"
                f" handle {run.queue} of {run.queue_manager}; give both one pool of one slot, or"
                " one waits in a worker while the other executes [MQDLQ-129]"
            )


def _pools(handlers: list[Handler], places: Mapping[str, Place]) -> dict[str, str]:
    first: dict[Place | None, str] = {}
    for name in sorted(places):
        first.setdefault(places[name], name)
    return {
        one.name: one.pool or f"mq_dlq_{first.get(places.get(one.name), one.name)}"
        for one in handlers
    }


def _places(handlers: list[Handler], kept: Kept | None) -> dict[str, Place]:
    """Return connection, INPUTQM and INPUTQ of those handlers that have one of theirs in common."""
    connections = Counter(handler.connection for handler in handlers)
    found = {}
    for handler in handlers:
        if connections[handler.connection] > 1:
            control = read_control_data(handler, kept)
            if control is not None:
                q_mgr, queue = control.input_q_mgr.strip(), control.input_q.strip()
                found[handler.name] = (handler.connection, q_mgr, queue)
    return found


def _reads(other: Handler, run: Run, kept: Kept, *, is_blank_ours: bool) -> bool:
    control = read_control_data(other, kept)
    if control is None:
        return False
    queue = control.input_q.strip()
    if queue != run.queue and (queue or not is_blank_ours):
        return False
    # Last: to read the connections of a thousand handlers of other queues takes seconds.
    try:
        place = control.input_q_mgr or MqHook(other.connection).settings().queue_manager
    except (MqDlqError, AirflowException):  # the other handler's run reports its fault
        return False
    return place == run.queue_manager
