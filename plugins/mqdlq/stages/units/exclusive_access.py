"""Take turns at a state queue: one executor or restoration at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from mqdlq.errors import AnotherExecutorError
from mqdlq.ledger import Ledger
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.state_queue import Markers, open_state_queue
from mqdlq.stages.units.resources import Resources

PATIENCE = timedelta(minutes=5)
"""How long a pass waits for its turn: several handlers may share one queue."""


@contextmanager
def take_turn(
    queue_manager: QueueManager, state_queue: str, resources: Resources
) -> Iterator[Markers]:
    """Hold the state queue; wait a while for another executor that holds it.

    Raises AnotherExecutorError after PATIENCE, with the holder that the ledger knows.
    """
    deadline = resources.clock() + PATIENCE
    state = None
    with ExitStack() as held:
        while state is None:
            try:
                state = held.enter_context(open_state_queue(queue_manager, state_queue))
            except AnotherExecutorError as error:
                holder = _who_holds_it(resources.ledger, queue_manager.name, state_queue)
                if resources.clock() >= deadline:
                    raise AnotherExecutorError(f"{error}; {holder}") from error
                resources.log.info("waiting for another executor: %s; %s", error, holder)
                resources.sleep(10.0)
        yield state


def _who_holds_it(ledger: Ledger, queue_manager: str, state_queue: str) -> str:
    """Say whose pass it probably is: the state queue's holder has written down that it began."""
    newest = ledger.runs.newest_pass(queue_manager, state_queue)
    restoration = ledger.restorations.newest(queue_manager, state_queue)
    if restoration is not None and (newest is None or newest[1] <= restoration.started_at):
        return (
            f"by this ledger it is restoration {restoration.restoration_id}, asked for at"
            f" {restoration.started_at:%Y-%m-%d %H:%M:%S} UTC"
        )
    if newest is None:
        return "this ledger knows of no pass there: the holder keeps another ledger"
    other, began = newest
    return (
        f"by this ledger it is run {other.run_id} of handler {other.handler} on queue"
        f" {other.queue}, whose last pass began at {began:%Y-%m-%d %H:%M:%S} UTC"
    )
