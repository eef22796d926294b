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
from mqdlq.stages.certify.behaviours import BEHAVIOURS
from mqdlq.stages.certify.bench import Bench, DeviationError, NotTriedError
from mqdlq.stages.certify.declaring import Behaviour
from mqdlq.stages.certify.preparing import prepared_queues

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
