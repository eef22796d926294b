"""Observe how a queue manager quiesces; an administrator quiesces it, nothing here does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import QueueManager
from mqdlq.stages.certify.certification import Finding, Verdict
from mqdlq.stages.certify.declaring import Behaviour

QUIESCING: Final = (MQRC["MQRC_Q_MGR_QUIESCING"], MQRC["MQRC_CONNECTION_QUIESCING"])
LOOK_EVERY_S: Final = 0.5


def observe_quiescing(
    connect: Callable[[], QueueManager], seconds: float, sleep: Callable[[float], None]
) -> Finding:
    """Wait until an administrator quiesces the queue manager, and see what a call then returns.

    Inquires the queue manager every half second and changes nothing. If the queue manager is not
    quiesced within `seconds`, or `seconds` is 0, the behaviour is skipped.
    """
    if not seconds:
        return Finding(QUIESCE, Verdict.SKIPPED, remark="only with --wait-for-quiesce")
    try:
        with connect() as queue_manager:
            for _ in range(max(1, int(seconds / LOOK_EVERY_S))):
                _inquire(queue_manager)
                sleep(LOOK_EVERY_S)
    except QueueManagerError as error:
        if error.reason in QUIESCING:
            return Finding(QUIESCE, Verdict.AGREES, remark=reason_text(error.reason))
        expected = " or ".join(map(reason_text, QUIESCING))
        return Finding(QUIESCE, Verdict.DIFFERS, expected, reason_text(error.reason))
    return Finding(
        QUIESCE, Verdict.SKIPPED, remark=f"the queue manager was not quiesced in {seconds:.0f} s"
    )


def _inquire(queue_manager: QueueManager) -> None:
    """Open the queue manager object for inquiry, unless it is quiescing."""
    client = queue_manager.client
    descriptor = client.packed.OD(ObjectType=client.CMQC.MQOT_Q_MGR)
    options = client.CMQC.MQOO_INQUIRE | client.CMQC.MQOO_FAIL_IF_QUIESCING
    with client.translating_errors("MQOPEN", "the queue manager"):
        client.module.Queue(queue_manager.handle, descriptor, options).close()


QUIESCE: Final = Behaviour(
    "a_quiescing_queue_manager_refuses_calls",
    "A quiescing queue manager refuses calls with FAIL_IF_QUIESCING, and the task is tried later.",
    "a task that runs while the queue manager ends keeps it from ending, or fails for good: pause"
    " the handlers before endmqm",
    lambda _: None,
)
"""The behaviour that is only observed."""
