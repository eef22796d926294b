"""Hold a state queue exclusively."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from mqdlq.errors import AnotherExecutorError
from mqdlq.ledger import Ledger
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.state_queue import Markers, open_state_queue
from mqdlq.resources import Resources

HOLD_TIMEOUT = timedelta(minutes=5)
"""How long a pass waits for the state queue, since several handlers may share one."""
LONGEST_QUEUE = timedelta(minutes=30)
"""How long it waits in all while passes of other runs begin: these runs take turns."""


@contextmanager
def hold_state_queue(
    queue_manager: QueueManager, state_queue: str, resources: Resources
) -> Iterator[Markers]:
    """Hold the state queue; wait while another executor holds it.

    Raises AnotherExecutorError after HOLD_TIMEOUT without a new pass of another run, or after
    LONGEST_QUEUE; the text names the holder that the ledger knows.
    """
    began = resources.clock()
    state = None
    with ExitStack() as held:
        while state is None:
            try:
                state = held.enter_context(open_state_queue(queue_manager, state_queue))
            except AnotherExecutorError as error:
                holder = _describe_holder(resources.ledger, queue_manager.name, state_queue)
                newest = resources.ledger.runs.newest_pass(queue_manager.name, state_queue)
                last = max(began, newest[1]) if newest else began
                if resources.clock() >= min(last + HOLD_TIMEOUT, began + LONGEST_QUEUE):
                    raise AnotherExecutorError(error.error_id, f"{error.text}; {holder}") from error
                resources.log.info("waiting for another executor: %s; %s", error.text, holder)
                resources.sleep(10.0)
        yield state


def _describe_holder(ledger: Ledger, queue_manager: str, state_queue: str) -> str:
    """Describe the probable holder: the run or restoration that last recorded a start there."""
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
