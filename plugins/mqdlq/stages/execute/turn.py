"""One at a time: a state queue's name in, its markers out once nobody else holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Protocol

from mqdlq.errors import AnotherExecutorError
from mqdlq.ledger import Ledger, newest_restoration
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.state_queue import Markers, hold
from mqdlq.stages.execute.execution import Log

PATIENCE = timedelta(minutes=5)
"""How long a pass waits for its turn: several handlers may share one queue."""


class InTurn(Protocol):
    """Whoever takes a turn, by what it waits and tells with."""

    @property
    def ledger(self) -> Ledger:
        """The ledger that may know who else holds the state queue."""

    @property
    def clock(self) -> Callable[[], datetime]:
        """Aware UTC."""

    @property
    def sleep(self) -> Callable[[float], None]:
        """Waits so many seconds."""

    @property
    def log(self) -> Log:
        """Where the wait is told."""


@contextmanager
def take_turn(queue_manager: QueueManager, state_queue: str, who: InTurn) -> Iterator[Markers]:
    """Hold the state queue, waiting a while for another executor to be done with it.

    Raises AnotherExecutorError, which names whom the ledger knows, after PATIENCE.
    """
    deadline = who.clock() + PATIENCE
    state = None
    with ExitStack() as held:
        while state is None:
            try:
                state = held.enter_context(hold(queue_manager, state_queue))
            except AnotherExecutorError as error:
                holder = _who_holds_it(who.ledger, queue_manager.name, state_queue)
                if who.clock() >= deadline:
                    raise AnotherExecutorError(f"{error}; {holder}") from error
                who.log.info("waiting for another executor: %s; %s", error, holder)
                who.sleep(10.0)
        yield state


def _who_holds_it(ledger: Ledger, queue_manager: str, state_queue: str) -> str:
    """Say whose pass it probably is: the state queue's holder has written down that it began."""
    newest = ledger.newest_pass(queue_manager, state_queue)
    restoration = newest_restoration(ledger, queue_manager, state_queue)
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
