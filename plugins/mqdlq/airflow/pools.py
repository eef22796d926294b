"""Choose the pools of handlers' tasks; warn if two handlers of one queue share no pool."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from airflow.sdk.exceptions import AirflowException

from mqdlq.airflow.hooks.ibmmq import MqHook
from mqdlq.errors import MqDlqError
from mqdlq.handlers import Handler
from mqdlq.handlers.kept import load_kept
from mqdlq.ledger.tables import Run
from mqdlq.rules import ControlData

AIRFLOWS_OWN: Final = "default_pool"
"""Airflow's own pool, which has many slots by default."""


def pools_of(
    handlers: Iterable[Handler], controls: Mapping[str, ControlData | None]
) -> dict[str, str]:
    """Return each handler's pool by its name: the one it names, or a new pool of one slot.

    The new pool is created when a run starts. Handlers with the same connection and the same INPUTQ
    that name no pool share it, and it has the name of the first of them. Deferred tasks take no
    slot, so the passes of overlapping runs take turns, and none waits for another's RETRYINT. A
    handler without control data shares no pool.
    """
    first: dict[tuple[str, ...], str] = {}
    pools = {}
    for handler in sorted(handlers, key=lambda one: one.name):
        name, control = handler.name, controls.get(handler.name)
        place = (handler.connection, control.input_q_mgr, control.input_q) if control else (name,)
        pools[name] = handler.pool or f"mq_dlq_{first.setdefault(place, name)}"
    return pools


def shared_without_a_pool(handler: Handler, run: Run) -> Iterator[str]:
    """Yield a warning for each other handler of the run's queue that does not share its pool.

    Evaluations and passes are one at a time where they take their slots from one pool of one slot,
    as those of one handler do; Airflow's default has many. Executors that meet wait for each other
    at the state queue: nothing is done twice, but the second holds a worker meanwhile.
    """
    loaded = load_kept(handler.directory)
    others = [one for one in loaded.handlers if one.name != handler.name]
    controls = {**loaded.controls, handler.name: handler.control_data()}
    pools = pools_of([*others, handler], controls)
    own, control = pools[handler.name], controls[handler.name]
    is_blank_ours = control is None or not control.input_q.strip()
    for other in others:
        its = pools[other.name]
        if (its != own or own == AIRFLOWS_OWN) and _reads(
            other, controls[other.name], run, is_blank_ours=is_blank_ours
        ):
            yield (
                f"{handler.name} (pool: {own}) and {other.name} (pool: {its}) both"
                f" handle {run.queue} of {run.queue_manager}; give both one pool of one slot, or"
                " one waits in a worker while the other executes [MQDLQ-129]"
            )


def _reads(other: Handler, control: ControlData | None, run: Run, *, is_blank_ours: bool) -> bool:
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
