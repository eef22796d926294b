"""Ask a queue manager read-only questions by PCF: few of them, each noted with what it took.

IBM MQ docs, "Inquire Queue", "Inquire Queue Names", "Inquire Queue Status", "Inquire Queue
Manager", "Inquire Queue Manager Status", "Inquire Cluster Queue Manager", "Inquire Entity
Authority", "Inquire Policy", "Inquire Channel" and "Inquire Channel Status".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Any, Final

from mqdlq.constants import MQRC, reason_text
from mqdlq.diagnosis.records import Facts, Inquiry
from mqdlq.errors import QueueManagerError
from mqdlq.headers import MessageDescriptor
from mqdlq.headers.representation import parse_gmt
from mqdlq.mqi.browse import GONE, BrowseCursor, get_options
from mqdlq.mqi.connect import MQCC_FAILED, QueueManager, name_bytes
from mqdlq.mqi.evidence import MAX_EVENT_LENGTH, read_refusal
from mqdlq.mqi.inquiries import run_command
from mqdlq.words import count

MOST_INQUIRIES: Final = 40
LONGEST_S: Final = 20.0
"""The bounds of one diagnosis: what it may still ask after them is not known."""

_ENABLED: Final = {0: "ENABLED", 1: "DISABLED"}
_WORDS: Final[Mapping[str, Mapping[int, str]]] = {
    "QTYPE": {1: "QLOCAL", 2: "QMODEL", 3: "QALIAS", 6: "QREMOTE", 7: "QCLUSTER"},
    "PUT": _ENABLED,
    "GET": _ENABLED,
    "USAGE": {0: "NORMAL", 1: "XMITQ"},
    "CLUSQT": {1: "QLOCAL", 2: "QALIAS", 3: "QREMOTE", 4: "QMALIAS"},
    "STRMQOS": {0: "BESTEF", 1: "MUSTDUP"},
    "SIGNALG": dict(enumerate(("NONE", "MD5", "SHA1", "SHA224", "SHA256", "SHA384", "SHA512"))),
    "ENCALG": dict(enumerate(("NONE", "RC2", "DES", "3DES", "AES128", "AES256"))),
    "ENFORCE": {0: "YES", 1: "NO"},
    "STATUS": {
        0: "INACTIVE",
        1: "BINDING",
        2: "STARTING",
        3: "RUNNING",
        4: "STOPPING",
        5: "RETRYING",
        6: "STOPPED",
        7: "REQUESTING",
        8: "PAUSED",
    },
}
_QUEUE: Final = {
    "QTYPE": "MQIA_Q_TYPE",
    "PUT": "MQIA_INHIBIT_PUT",
    "CURDEPTH": "MQIA_CURRENT_Q_DEPTH",
    "MAXDEPTH": "MQIA_MAX_Q_DEPTH",
    "MAXMSGL": "MQIA_MAX_MSG_LENGTH",
    "IPPROCS": "MQIA_OPEN_INPUT_COUNT",
    "OPPROCS": "MQIA_OPEN_OUTPUT_COUNT",
    "USAGE": "MQIA_USAGE",
    "TARGET": "MQCA_BASE_OBJECT_NAME",
    "RNAME": "MQCA_REMOTE_Q_NAME",
    "RQMNAME": "MQCA_REMOTE_Q_MGR_NAME",
    "XMITQ": "MQCA_XMIT_Q_NAME",
    "BOTHRESH": "MQIA_BACKOUT_THRESHOLD",
    "BOQNAME": "MQCA_BACKOUT_REQ_Q_NAME",
    "STREAMQ": "MQCA_STREAM_QUEUE_NAME",
    "STRMQOS": "MQIA_STREAM_QUEUE_QOS",
    "ALTDATE": "MQCA_ALTERATION_DATE",
    "ALTTIME": "MQCA_ALTERATION_TIME",
}
_INSTANCE: Final = {
    "CLUSTER": "MQCA_CLUSTER_NAME",
    "CLUSQMGR": "MQCA_CLUSTER_Q_MGR_NAME",
    "CLUSQT": "MQIA_CLUSTER_Q_TYPE",
    "PUT": "MQIA_INHIBIT_PUT",
}
_POLICY: Final = {
    "SIGNALG": "MQIA_SIGNATURE_ALGORITHM",
    "ENCALG": "MQIA_ENCRYPTION_ALGORITHM",
    "ENFORCE": "MQIA_TOLERATE_UNPROTECTED",
}
_IN_USE: Final = {
    "QMFSUSE": "MQIACF_Q_MGR_FS_IN_USE",
    "DATFSUSE": "MQIACF_DATA_FS_IN_USE",
    "LOGFSUSE": "MQIACF_LOG_FS_IN_USE",
    "LOGINUSE": "MQIACF_LOG_IN_USE",
}
_QUEUE_MANAGER: Final = {"MAXMSGL": "MQIA_MAX_MSG_LENGTH", "DEFXMITQ": "MQCA_DEF_XMIT_Q_NAME"}
_STATUS: Final = {
    "UNCOM": "MQIACF_UNCOMMITTED_MSGS",
    "LGETDATE": "MQCACF_LAST_GET_DATE",
    "LGETTIME": "MQCACF_LAST_GET_TIME",
    "LPUTDATE": "MQCACF_LAST_PUT_DATE",
    "LPUTTIME": "MQCACF_LAST_PUT_TIME",
}
_CHANNEL: Final = {
    "CHANNEL": "MQCACH_CHANNEL_NAME",
    "XMITQ": "MQCACH_XMIT_Q_NAME",
    "MAXMSGL": "MQIACH_MAX_MSG_LENGTH",
    "CONNAME": "MQCACH_CONNECTION_NAME",
}
_CHANNEL_STATUS: Final = {
    "STATUS": "MQIACH_CHANNEL_STATUS",
    "CHSTADA": "MQCACH_CHANNEL_START_DATE",
    "CHSTATI": "MQCACH_CHANNEL_START_TIME",
    "LSTMSGDA": "MQCACH_LAST_MSG_DATE",
    "LSTMSGTI": "MQCACH_LAST_MSG_TIME",
}
_BEGINNING: Final = 64
EVENT_QUEUE: Final = "SYSTEM.ADMIN.QMGR.EVENT"
_MOST_EVENTS: Final = 1_000
_MQCHT_SENDER: Final = 1
_MQOT_Q: Final = 1
_MQQT_LOCAL: Final = 1
_MQZAET_PRINCIPAL: Final = 1
_NEWER: Final = {
    "MQIACF_DATA_FS_IN_USE": 1449,
    "MQIACF_LOG_FS_IN_USE": 1452,
    "MQIACF_Q_MGR_FS_IN_USE": 1464,
}
"""Constants that one of the client libraries does not have."""

_NOT_THERE: Final = frozenset(
    {MQRC["MQRC_UNKNOWN_OBJECT_NAME"]}
    | {3065, 4032, 4064}  # MQRCCF_CHL_STATUS_NOT_FOUND, MQRCCF_CHANNEL_NOT_FOUND, its names
)


class NotToldError(Exception):
    """The queue manager does not answer a question, or it may not be asked; the text says why."""


class _Told(dict[str, str]):
    """The facts of one answer; one that it does not have is not told."""

    def __missing__(self, name: str) -> str:
        raise NotToldError(f"an answer of the queue manager has no {name}")


class Look:
    """The questions of one diagnosis. An answer is asked for once, and its facts are kept.

    `facts` has what the answers said, by object. After `MOST_INQUIRIES` questions or `LONGEST_S`
    seconds no further one is asked. Nothing is written to the queue manager but the commands
    themselves and their dynamic reply queue.
    """

    def __init__(
        self,
        queue_manager: QueueManager,
        clock: Callable[[], datetime],
        *,
        user: str = "",
        most: int = MOST_INQUIRIES,
    ) -> None:
        self._queue_manager, self._clock, self._most = queue_manager, clock, most
        self._user = user
        self._began = clock()
        self._known: dict[tuple[str, str], list[dict[int, Any]] | NotToldError] = {}
        self.inquiries: list[Inquiry] = []
        self.facts: dict[str, Facts] = {}

    @property
    def name(self) -> str:
        """The name of the queue manager."""
        return self._queue_manager.name

    def queue(self, name: str) -> Facts | None:
        """Return the attributes of a queue of this queue manager, None if none has that name."""
        found = self._ask("MQCMD_INQUIRE_Q", name, {"MQCA_Q_NAME": name})
        return self._keep(f"queue {name}", found[0], _QUEUE) if found else None

    def instances(self, name: str) -> list[Facts]:
        """Return what is known here of a queue of clusters: an instance for each queue manager."""
        asked = {"MQCA_Q_NAME": name, "MQIACF_CLUSTER_INFO": 1}
        found = self._ask("MQCMD_INQUIRE_Q", f"{name} in clusters", asked)
        at = self._number("MQCA_CLUSTER_Q_MGR_NAME")
        return [self._keep(f"queue {name} at {_text(one[at])}", one, _INSTANCE) for one in found]

    def is_of_cluster(self, queue_manager: str) -> bool:
        """Return whether another queue manager is known by a cluster."""
        asked = {"MQCA_CLUSTER_Q_MGR_NAME": queue_manager}
        return bool(self._ask("MQCMD_INQUIRE_CLUSTER_Q_MGR", queue_manager, asked))

    def queues(self) -> list[str]:
        """Return the names of all queues but the queue manager's own."""
        found = self._ask("MQCMD_INQUIRE_Q_NAMES", "*", {"MQCA_Q_NAME": "*"})
        names = found[0].get(self._number("MQCACF_Q_NAMES"), ()) if found else ()
        read = map(_text, [names] if isinstance(names, bytes) else names)
        return sorted(one for one in read if not one.startswith("SYSTEM."))

    def depths(self) -> dict[str, int]:
        """Return CURDEPTH of all local queues by name."""
        asked = {"MQCA_Q_NAME": "*", "MQIA_Q_TYPE": _MQQT_LOCAL}
        name, depth = self._number("MQCA_Q_NAME"), self._number("MQIA_CURRENT_Q_DEPTH")
        found = self._ask("MQCMD_INQUIRE_Q", "all local queues", asked)
        return {_text(one[name]): one[depth] for one in found}

    def status(self, name: str) -> Facts:
        """Return what a local queue's status adds: times of the last get and put, and UNCOM."""
        found = self._ask("MQCMD_INQUIRE_Q_STATUS", name, {"MQCA_Q_NAME": name})
        return self._keep(f"status of queue {name}", found[0] if found else {}, _STATUS)

    def queue_manager(self) -> Facts:
        found = self._ask("MQCMD_INQUIRE_Q_MGR", self.name, {})
        return self._keep(f"queue manager {self.name}", found[0], _QUEUE_MANAGER)

    def in_use(self) -> Facts:
        """Return how many percent of the queue manager's log and file systems are in use."""
        found = self._ask("MQCMD_INQUIRE_Q_MGR_STATUS", self.name, {})
        return self._keep(f"status of queue manager {self.name}", found[0], _IN_USE)

    def policy(self, queue: str) -> Facts:
        """Return how messages on a queue are protected; the one of a queue without is NONE."""
        found = self._ask("MQCMD_INQUIRE_PROT_POLICY", queue, {"MQCA_POLICY_NAME": queue})
        return self._keep(f"policy {queue}", found[0] if found else {}, _POLICY)

    def may_put(self, user: str, queue: str) -> tuple[bool, str]:
        """Return whether a user's authorities on a queue have +put, and all of them in words."""
        asked = {
            "MQIACF_AUTH_OPTIONS": self._number("MQAUTHOPT_CUMULATIVE"),
            "MQIACF_OBJECT_TYPE": _MQOT_Q,
            "MQIACF_ENTITY_TYPE": _MQZAET_PRINCIPAL,
            "MQCACF_ENTITY_NAME": user,
            "MQCACF_OBJECT_NAME": queue,
        }
        found = self._ask("MQCMD_INQUIRE_ENTITY_AUTH", f"{user} on {queue}", asked)
        listed = found[0].get(self._number("MQIACF_AUTHORIZATION_LIST"), ()) if found else ()
        held = set(listed if isinstance(listed, list | tuple) else (listed,))
        words = " ".join(
            f"+{word}" for word, name in _AUTHORITIES.items() if self._number(name) in held
        )
        self.facts[f"authority of {user} on queue {queue}"] = {"AUTHLIST": words or "NONE"}
        return self._number("MQAUTH_OUTPUT") in held, words

    def channels_of(self, transmission_queue: str) -> list[Facts]:
        """Return the sender channels that take messages from a transmission queue."""
        asked = {"MQCACH_CHANNEL_NAME": "*", "MQIACH_CHANNEL_TYPE": _MQCHT_SENDER}
        found = self._ask("MQCMD_INQUIRE_CHANNEL", "*", asked)
        read = [_facts(one, _CHANNEL, self._number) for one in found]
        return [one for one in read if one.get("XMITQ") == transmission_queue]

    def channel(self, name: str) -> Facts:
        """Return the status of a channel; one that was never started is INACTIVE."""
        asked = {"MQCACH_CHANNEL_NAME": name}
        found = self._ask("MQCMD_INQUIRE_CHANNEL_STATUS", name, asked)
        read = _facts(found[0] if found else {}, _CHANNEL_STATUS, self._number)
        self.facts[f"channel {name}"] = _Told({"STATUS": "INACTIVE"} | read)
        return self.facts[f"channel {name}"]

    def refusals(self, queue: str) -> dict[str, str]:
        """Return when each user was last refused on a queue, by the authority events there are.

        They are browsed, and stay. Without the event queue, or events, there are none.
        """
        found: dict[str, str] = {}
        with self._noting("MQGET (browse)", EVENT_QUEUE) as answer:
            try:
                with self._queue_manager.browsing(EVENT_QUEUE) as opened:
                    cursor = BrowseCursor(
                        self._queue_manager, opened, EVENT_QUEUE, length=MAX_EVENT_LENGTH
                    )
                    for event in islice(cursor.messages(), _MOST_EVENTS):
                        refused = read_refusal(event.prefix)
                        if refused is not None and refused[0] == queue:
                            md = MessageDescriptor.decode(event.descriptor)
                            at = parse_gmt(md.put_date, md.put_time)
                            found[refused[1]] = f"{at:%Y-%m-%d %H:%M}" if at else ""
            except QueueManagerError as error:
                answer.append(reason_text(error.reason))
            answer.append(count(len(found), "refused user"))
        return found

    def beginning(self, queue: str, msg_id: bytes, offset: int) -> bytes:
        """Browse some bytes of a message's body behind its headers; b"" if it is gone.

        Nobody is shown them.
        """
        client, found = self._queue_manager.client, b""
        options = client.CMQC.MQGMO_BROWSE_FIRST | client.CMQC.MQGMO_ACCEPT_TRUNCATED_MSG
        gmo, descriptor = get_options(client, options), client.packed.MD(MsgId=msg_id)
        gmo.MatchOptions = client.CMQC.MQMO_MATCH_MSG_ID
        with self._noting("MQGET (browse)", queue) as answer:
            try:
                with (
                    self._queue_manager.browsing(queue) as opened,
                    client.translating_errors("MQGET", f"queue {queue}"),
                ):
                    found = opened.get(offset + _BEGINNING, descriptor, gmo)
            except QueueManagerError as error:
                if error.completion == MQCC_FAILED and error.reason not in GONE:
                    raise NotToldError(f"a message cannot be browsed: {error.text}") from None
                found = getattr(error.__cause__, "message", b"")  # the part that was asked for
            answer.append("1 message" if found else "it is gone")
        return bytes(found[offset:])

    def _keep(self, subject: str, found: Mapping[int, Any], known: Mapping[str, str]) -> Facts:
        self.facts[subject] = _facts(found, known, self._number)
        return self.facts[subject]

    def _number(self, name: str) -> int:
        module = self._queue_manager.client.module
        number: int | None = getattr(module.CMQCFC, name, _NEWER.get(name))
        return int(getattr(module.CMQC, name)) if number is None else number

    def _ask(self, command: str, about: str, parameters: Mapping[str, Any]) -> list[dict[int, Any]]:
        """Return the responses to a command; none if its object is not there.

        Raises NotToldError, again for the same question.
        """
        if (command, about) not in self._known:
            try:
                self._known[command, about] = self._run(command, about, parameters)
            except NotToldError as error:
                self._known[command, about] = error
        known = self._known[command, about]
        if isinstance(known, NotToldError):
            raise known
        return known

    def _run(self, command: str, about: str, parameters: Mapping[str, Any]) -> list[dict[int, Any]]:
        passed = (self._clock() - self._began).total_seconds()
        if len(self.inquiries) >= self._most or passed > LONGEST_S:
            raise NotToldError(
                f"{command} about {about} was not asked: {len(self.inquiries)} inquiries took"
                f" {passed:.0f} s, which is as much as a diagnosis may take"
            )
        asked = {
            self._number(name): name_bytes(value) if isinstance(value, str) else value
            for name, value in parameters.items()
        }
        with self._noting(command, about) as answer:
            try:
                found = run_command(self._queue_manager, command, asked)
            except QueueManagerError as error:
                answer.append(reason_text(error.reason))
                if error.reason in _NOT_THERE:
                    return []
                raise NotToldError(self._why_not(command, about, error)) from None
            answer.append(count(len(found), "response"))
        return found

    def _why_not(self, command: str, about: str, error: QueueManagerError) -> str:
        text = f"{command} about {about} is not answered: {reason_text(error.reason)}"
        if error.reason == MQRC["MQRC_NO_MSG_AVAILABLE"]:
            return f"{text}; the command server may not be running (strmqcsv starts it)"
        if error.reason != MQRC["MQRC_NOT_AUTHORIZED"]:
            return text
        user = f"user {self._user}" if self._user else "the user of the handler's connection"
        return f"{text}; {user} needs +dsp on it, and +put on SYSTEM.ADMIN.COMMAND.QUEUE"

    @contextmanager
    def _noting(self, command: str, about: str) -> Iterator[list[str]]:
        at, answer = self._clock(), list[str]()
        try:
            yield answer
        finally:
            took = (self._clock() - at).total_seconds() * 1000
            self.inquiries.append(Inquiry(command, about, at, took, "".join(answer)))


_AUTHORITIES: Final = {
    "put": "MQAUTH_OUTPUT",
    "get": "MQAUTH_INPUT",
    "browse": "MQAUTH_BROWSE",
    "inq": "MQAUTH_INQUIRE",
    "set": "MQAUTH_SET",
    "passall": "MQAUTH_PASS_ALL_CONTEXT",
    "passid": "MQAUTH_PASS_IDENTITY_CONTEXT",
    "setall": "MQAUTH_SET_ALL_CONTEXT",
    "setid": "MQAUTH_SET_IDENTITY_CONTEXT",
}


def _facts(
    found: Mapping[int, Any], known: Mapping[str, str], number: Callable[[str], int]
) -> _Told:
    """Return attributes in MQSC's words, without those that are absent or blank."""
    read = _Told()
    for keyword, name in known.items():
        value = found.get(number(name))
        if isinstance(value, int):
            read[keyword] = _WORDS.get(keyword, {}).get(value, str(value))
        elif value is not None and (text := _text(value)):
            read[keyword] = text
    return read


def _text(value: Any) -> str:
    return bytes(value).decode("ascii", "replace").rstrip(" \0")
