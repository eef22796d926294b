"""Try the behaviours on a queue manager, and record what agrees with the handler's assumptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from importlib.metadata import version
from typing import Final

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import QueueManager
from mqdlq.tools.certify.behaviours import BEHAVIOURS
from mqdlq.tools.certify.bench import Behaviour, Bench, DeviationError, NotTriedError
from mqdlq.tools.certify.preparing import prepared_queues

PLATFORMS: Final = {
    1: "z/OS",
    3: "UNIX or Linux",
    4: "IBM i",
    11: "Windows",
    13: "HPE NonStop",
    28: "MQ Appliance",
}
"""The values of MQIA_PLATFORM (IBM MQ docs, "Platform (MQLONG)")."""


class Verdict(StrEnum):
    """Whether a queue manager does what the handler relies on."""

    AGREES = "agrees"
    DIFFERS = "differs"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one behaviour; `remark` is what was observed, or why it was not tried."""

    behaviour: Behaviour
    verdict: Verdict
    expected: str = ""
    seen: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Versions:
    """The queue manager and the programs that were tried together."""

    queue_manager: str
    command_level: int
    platform: str
    client: str
    client_version: str
    mqdlq: str


@dataclass(slots=True)
class Certification:
    """The findings on one queue manager."""

    at: datetime
    prefix: str
    versions: Versions
    findings: list[Finding] = field(default_factory=list)

    def count(self, verdict: Verdict) -> int:
        """Return the number of findings with a verdict."""
        return sum(finding.verdict is verdict for finding in self.findings)


def certify(
    connect: Callable[[], QueueManager],
    prefix: str,
    *,
    user: str = "",
    clock: Callable[[], datetime],
    begin: Callable[[Certification], None] = lambda _: None,
    progress: Callable[[Finding], None] = lambda _: None,
    behaviours: Iterable[Behaviour] = BEHAVIOURS,
) -> Certification:
    """Try each behaviour on scratch queues under a prefix, and report each finding as it is made.

    Only the scratch queues change, and they are deleted or emptied afterwards. Raises
    CertificationError if they cannot be used, QueueManagerError if the connection is lost.
    """
    with connect() as queue_manager:
        found = Certification(clock(), prefix, versions_of(queue_manager))
    begin(found)
    with prepared_queues(connect, prefix, user) as queues:
        for behaviour in behaviours:
            finding = try_behaviour(behaviour, Bench(connect, prefix))
            queues.empty()
            found.findings.append(finding)
            progress(finding)
    return found


def try_behaviour(behaviour: Behaviour, bench: Bench) -> Finding:
    """Try one behaviour; the scratch queues must be empty."""
    try:
        with bench:
            remark = behaviour.check(bench)
    except DeviationError as deviation:
        return Finding(behaviour, Verdict.DIFFERS, deviation.expected, deviation.seen)
    except NotTriedError as error:
        return Finding(behaviour, Verdict.SKIPPED, remark=str(error))
    except QueueManagerError as error:
        failed = f"{error.verb}: {reason_text(error.reason)}"
        if error.reason == MQRC["MQRC_NOT_AUTHORIZED"]:
            return Finding(behaviour, Verdict.SKIPPED, remark=f"{failed}; see --mqsc")
        return Finding(behaviour, Verdict.DIFFERS, "each call succeeds", failed)
    return Finding(behaviour, Verdict.AGREES, remark=remark or "")


def versions_of(queue_manager: QueueManager) -> Versions:
    """Return what the queue manager and the client say of themselves."""
    client = queue_manager.client
    level = queue_manager.inquire(client.CMQC.MQIA_COMMAND_LEVEL)
    platform = queue_manager.inquire(client.CMQC.MQIA_PLATFORM)
    return Versions(
        queue_manager.name,
        level,
        PLATFORMS.get(platform, f"platform {platform}"),
        client.name,
        version(client.name),
        version("mqdlq"),
    )


# Observe how a queue manager quiesces; an administrator quiesces it, nothing here does.

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
