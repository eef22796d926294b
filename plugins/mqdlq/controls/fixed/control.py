"""Hold the messages for a destination that a diagnosis finds to refuse them."""

from collections.abc import Callable, Collection
from datetime import datetime

from mqdlq.causes import find_cause
from mqdlq.constants import MQRC
from mqdlq.controls.fixed import UntilFixed
from mqdlq.controls.settings import Controls
from mqdlq.controls.work import Control, Hold, WorkItem
from mqdlq.diagnosis.diagnosing import diagnose
from mqdlq.diagnosis.keeping import Place, keep
from mqdlq.diagnosis.obstacles import Subject
from mqdlq.diagnosis.records import Diagnosis, Outlook
from mqdlq.errors import QueueManagerError
from mqdlq.model import Destination, MessageClass
from mqdlq.mqi.connect import QueueManager, connect
from mqdlq.reasons import Why
from mqdlq.resources import Execution
from mqdlq.words import target

Clock = Callable[[], datetime]


def look_at(
    queue_manager: QueueManager, destination: Destination, user: str, clock: Clock
) -> Diagnosis:
    """Ask what a put of the handler's user to a destination would meet; nothing is tried.

    How long messages are is not asked: one that is too long is tried, and fails.
    """
    subject = Subject(MQRC["MQRC_NOT_AUTHORIZED"], destination, users=(user,) if user else ())
    return diagnose(queue_manager, subject, clock, user=user)


class DestinationWatch(Control):
    """Holds the messages for a destination that would refuse them, and looks again after a time.

    Where a look cannot tell, messages are tried as without it. Each pass looks once at each
    destination; the ledger keeps what it finds.
    """

    keys = ("hold_until_fixed",)

    @classmethod
    def open(cls, execution: Execution, keys: Controls) -> Control | None:
        return cls(execution, keys.hold_until_fixed) if keys.hold_until_fixed else None

    def __init__(self, execution: Execution, configured: UntilFixed) -> None:
        self._execution, self._look_every = execution, configured.look_every
        self._found: dict[Destination, Hold | None] = {}

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return a hold until the next look at a destination that refuses puts now."""
        destination = item.due_step.destination if item.due_step else None
        if destination is None:
            return None
        if destination not in self._found:
            self._found[destination] = self._look(destination)
        return self._found[destination]

    def _look(self, destination: Destination) -> Hold | None:
        execution = self._execution
        try:
            with connect(execution.settings) as queue_manager:
                found = look_at(
                    queue_manager, destination, execution.settings.user, execution.clock
                )
        except QueueManagerError:  # the pass meets it, too, and says so
            return None
        run = execution.run
        # Of no reason, so that it is told apart from what is found for a cause.
        watched = find_cause(MessageClass.DEAD_LETTER, 0, *destination)
        place = Place(run.handler, run.queue_manager, run.queue)
        keep(place, watched, f"puts to {target(*destination)}", found, execution.ledger)
        if found.outlook is not Outlook.REFUSED:
            return None
        why = Why.DESTINATION_REFUSES(fact=found.findings[0].text)
        return Hold(why, found.at + self._look_every)


def would_refuse(
    queue_manager: QueueManager, destinations: Collection[Destination], user: str, clock: Clock
) -> bool:
    """Whether each of these destinations would refuse a put now."""
    found = (look_at(queue_manager, one, user, clock).outlook for one in destinations)
    return all(one is Outlook.REFUSED for one in found)
