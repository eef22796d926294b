"""Try the behaviours on a queue manager, and record what agrees with the handler's assumptions."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from importlib.metadata import version
from typing import Any, Final

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import CertificationError, QueueManagerError
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.inquiries import run_command
from mqdlq.tools.certify import behaviours

Connect = Callable[[], QueueManager]

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

    behaviour: behaviours.Behaviour
    verdict: Verdict
    expected: str = ""
    seen: str = ""
    remark: str = ""


@dataclass(slots=True)
class Certification:
    """The findings on one queue manager.

    `versions` has the names and versions of queue manager, client and mqdlq, by their keys in JSON.
    """

    at: datetime
    prefix: str
    versions: Mapping[str, str | int]
    findings: list[Finding] = field(default_factory=list)

    def count(self, verdict: Verdict) -> int:
        return sum(finding.verdict is verdict for finding in self.findings)


def certify(
    connect: Connect,
    prefix: str,
    *,
    user: str = "",
    clock: Callable[[], datetime],
    begin: Callable[[Certification], None] = lambda _: None,
    progress: Callable[[Finding], None] = lambda _: None,
) -> Certification:
    """Try each behaviour on scratch queues under a prefix, and report each finding as it is made.

    Only the scratch queues change, and they are deleted or emptied afterwards. Raises
    CertificationError if they cannot be used, QueueManagerError if the connection is lost.
    """
    with connect() as queue_manager:
        found = Certification(clock(), prefix, _versions_of(queue_manager))
    begin(found)
    with _prepared_queues(connect, prefix, user) as queues:
        for behaviour in behaviours.BEHAVIOURS:
            finding = _try(behaviour, connect, prefix)
            queues.empty()
            found.findings.append(finding)
            progress(finding)
    return found


def _try(behaviour: behaviours.Behaviour, connect: Connect, prefix: str) -> Finding:
    """Try one behaviour; the scratch queues must be empty."""
    try:
        with closing(behaviours.Bench(connect, prefix)) as bench:
            remark = behaviour.check(bench)
    except behaviours.DeviationError as deviation:
        return Finding(behaviour, Verdict.DIFFERS, deviation.expected, deviation.seen)
    except behaviours.NotTriedError as error:
        return Finding(behaviour, Verdict.SKIPPED, remark=str(error))
    except QueueManagerError as error:
        failed = f"{error.verb}: {reason_text(error.reason)}"
        if error.reason == MQRC["MQRC_NOT_AUTHORIZED"]:
            return Finding(behaviour, Verdict.SKIPPED, remark=f"{failed}; see --mqsc")
        return Finding(behaviour, Verdict.DIFFERS, "each call succeeds", failed)
    return Finding(behaviour, Verdict.AGREES, remark=remark or "")


def _versions_of(queue_manager: QueueManager) -> dict[str, str | int]:
    client = queue_manager.client
    platform = queue_manager.inquire(client.CMQC.MQIA_PLATFORM)
    return {
        "queue_manager": queue_manager.name,
        "command_level": queue_manager.inquire(client.CMQC.MQIA_COMMAND_LEVEL),
        "platform": PLATFORMS.get(platform, f"platform {platform}"),
        "client": client.name,
        "client_version": version(client.name),
        "mqdlq": version("mqdlq"),
    }


# Observe how a queue manager quiesces; an administrator quiesces it, nothing here does.

QUIESCING: Final = (MQRC["MQRC_Q_MGR_QUIESCING"], MQRC["MQRC_CONNECTION_QUIESCING"])
LOOK_EVERY_S: Final = 0.5
QUIESCE: Final = behaviours.Behaviour(
    "a_quiescing_queue_manager_refuses_calls",
    "A quiescing queue manager refuses calls with FAIL_IF_QUIESCING, and the task is tried later.",
    "a task that runs while the queue manager ends keeps it from ending, or fails for good: pause"
    " the handlers before endmqm",
    lambda _: None,
)
"""The behaviour that is only observed."""


def observe_quiescing(connect: Connect, seconds: float, sleep: Callable[[float], None]) -> Finding:
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
    remark = f"the queue manager was not quiesced in {seconds:.0f} s"
    return Finding(QUIESCE, Verdict.SKIPPED, remark=remark)


def _inquire(queue_manager: QueueManager) -> None:
    """Open the queue manager object for inquiry, unless it is quiescing."""
    client = queue_manager.client
    descriptor = client.packed.OD(ObjectType=client.CMQC.MQOT_Q_MGR)
    options = client.CMQC.MQOO_INQUIRE | client.CMQC.MQOO_FAIL_IF_QUIESCING
    with client.translating_errors("MQOPEN", "the queue manager"):
        client.module.Queue(queue_manager.handle, descriptor, options).close()


# Create, check, empty and delete the scratch queues of one prefix, and touch no other queue.
#
# A scratch queue is known by its DESCR. A queue with the name of a scratch queue and another DESCR
# belongs to someone else: it is opened to inquire its DESCR only, and nothing runs.

MQQT_LOCAL, MQPO_YES = 1, 1


class _ScratchQueues(behaviours.Application):
    """The scratch queues of one prefix over one connection without a unit of work."""

    def __init__(self, queue_manager: QueueManager, prefix: str, user: str) -> None:
        super().__init__(queue_manager, prefix)
        self._user = user  # for the commands in error texts

    def check_ownership(self) -> None:
        """Raise CertificationError if a queue with a scratch queue's name is someone else's."""
        for queue in behaviours.SCRATCH_QUEUES:
            if self._descr(queue) not in {None, behaviours.TEMPORARY, behaviours.KEPT}:
                raise CertificationError(
                    "MQDLQ-952",
                    f"queue {queue.name(self.prefix)} exists, and its DESCR does not say that it"
                    " is a scratch queue of mqdlq certify; give another --scratch-prefix, or define"
                    " the queue with the commands of --mqsc",
                )

    def take_lock(self) -> Any:
        """Open the lock queue, and define it if it is missing; the caller closes it at the end."""
        if self._descr(behaviours.LOCK) is None:
            self._define(behaviours.LOCK)
        try:
            return self.open(behaviours.LOCK, "INPUT_EXCLUSIVE")
        except QueueManagerError as error:
            if error.reason != MQRC["MQRC_OBJECT_IN_USE"]:
                raise
            raise CertificationError(
                "MQDLQ-954",
                f"another mqdlq certify uses the scratch queues {self.prefix}*"
                " (MQRC_OBJECT_IN_USE (2042)); wait for it, or give another --scratch-prefix",
            ) from error

    def define(self) -> None:
        """Define the queues that are missing; delete and define those of an interrupted run."""
        for queue in behaviours.SCRATCH_QUEUES:
            descr = self._descr(queue)
            if queue is not behaviours.LOCK and descr == behaviours.TEMPORARY:
                self._delete(queue)
                descr = None
            if descr is None:
                self._define(queue)
            elif descr == behaviours.KEPT:
                self._check_attributes(queue)

    def empty(self, *queues: behaviours.ScratchQueue) -> None:
        for queue in queues or behaviours.SCRATCH_QUEUES:
            if queue is not behaviours.LOCK and self.depth(queue):
                self.get_all(queue)

    def remove(self) -> None:
        """Delete the temporary queues except the lock queue, and empty the others."""
        for queue in behaviours.SCRATCH_QUEUES:
            descr = self._descr(queue)
            if queue is not behaviours.LOCK and descr == behaviours.TEMPORARY:
                self._delete(queue)
            elif descr == behaviours.KEPT:
                self.empty(queue)

    def remove_lock(self) -> None:
        """Delete the lock queue if it is temporary and no other run holds it."""
        if self._descr(behaviours.LOCK) == behaviours.TEMPORARY:
            with suppress(CertificationError):
                self._delete(behaviours.LOCK)

    def _descr(self, queue: behaviours.ScratchQueue) -> str | None:
        name, selector = queue.name(self.prefix), self.number("MQCA_Q_DESC")
        try:
            return str(self.queue_manager.inquire_queue(name, selector))
        except QueueManagerError as error:
            if error.reason != MQRC["MQRC_UNKNOWN_OBJECT_NAME"]:
                raise
            return None

    def _check_attributes(self, queue: behaviours.ScratchQueue) -> None:
        name = queue.name(self.prefix)
        selectors = [self.number(selector) for _, selector, _ in queue.attributes]
        found = self.queue_manager.inquire_attributes(name, *selectors)
        for (mqsc, _, wanted), value in zip(queue.attributes, found, strict=True):
            if wanted != value:
                raise CertificationError(
                    "MQDLQ-955",
                    f"scratch queue {name} is not defined with {mqsc}; define it again"
                    " with the commands of --mqsc, with REPLACE",
                )

    def _define(self, queue: behaviours.ScratchQueue) -> None:
        attributes = {self.number(selector): value for _, selector, value in queue.attributes}
        descr = {self.number("MQCA_Q_DESC"): behaviours.TEMPORARY.encode()}
        try:
            self._command("MQCMD_CREATE_Q", queue, attributes | descr)
        except QueueManagerError as error:
            commands = "\n".join(behaviours.administrator_commands(self.prefix, self._user))
            raise CertificationError(
                "MQDLQ-953",
                f"scratch queue {queue.name(self.prefix)} cannot be defined through the command"
                f" server ({error.text}); let an administrator run these commands, then run"
                f" mqdlq certify again\n{commands}",
            ) from error

    def _delete(self, queue: behaviours.ScratchQueue) -> None:
        name = queue.name(self.prefix)
        purge = self.queue_manager.client.module.CMQCFC.MQIACF_PURGE
        try:
            self._command("MQCMD_DELETE_Q", queue, {purge: MQPO_YES})
        except QueueManagerError as error:
            raise CertificationError(
                "MQDLQ-956",
                f"scratch queue {name} cannot be deleted ({error.text}); run mqdlq certify again,"
                f" or let an administrator run DELETE QLOCAL('{name}') PURGE",
            ) from error

    def _command(
        self, name: str, queue: behaviours.ScratchQueue, parameters: Mapping[int, Any]
    ) -> None:
        """Run a PCF command on a queue; its reply queue is dynamic and ends with the command."""
        # The name comes first in a command.
        subject = {
            self.number("MQCA_Q_NAME"): queue.name(self.prefix).encode(),
            self.number("MQIA_Q_TYPE"): MQQT_LOCAL,
        }
        reply_queue = f"{self.prefix[:32]}*"
        run_command(self.queue_manager, name, {**subject, **parameters}, reply_queue=reply_queue)


@contextmanager
def _prepared_queues(connect: Connect, prefix: str, user: str) -> Iterator[_ScratchQueues]:
    """Yield the scratch queues, defined and empty; afterwards delete or empty them.

    They are also removed after an error or an interruption. The queues that an interrupted run has
    left are deleted first. Raises CertificationError if the queues cannot be used.
    """
    with connect() as holder:
        queues = _ScratchQueues(holder, prefix, user)
        queues.check_ownership()
        # The client closes a queue that is not referred to.
        lock = queues.take_lock()
        try:
            queues.define()
            queues.empty()
            yield queues
        finally:
            # On a new connection, because an interruption may have broken this one.
            with connect() as cleaner:
                cleaning = _ScratchQueues(cleaner, prefix, user)
                try:
                    cleaning.remove()
                finally:
                    holder.close(lock)
                    cleaning.remove_lock()
