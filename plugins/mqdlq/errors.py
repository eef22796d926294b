"""Exceptions of this project, named by the fault."""

from collections.abc import Sequence
from typing import Final


class MqDlqError(Exception):
    """Base of all errors of this project.

    `error_id` is that of the entry in the catalogue (`mqdlq.error_catalogue`), `text` is for
    people. Faults of a message or of a rules table have no id: "".
    """

    def __init__(self, error_id: str, text: str) -> None:
        """Keep both; the error as text has the id at the end of its first line."""
        super().__init__(error_id, text)
        self.error_id = error_id
        self.text = text

    def __str__(self) -> str:
        first, *others = self.text.split("\n")
        return "\n".join([f"{first} [{self.error_id}]" if self.error_id else first, *others])


class QueueManagerError(MqDlqError):
    """An MQI call did not complete with MQCC_OK.

    `verb` is the call (``MQOPEN``), `subject` what it was called on (a queue, a queue manager),
    `completion` and `reason` are IBM's numbers, `reason_text` is the reason as people read it.
    """

    def __init__(
        self, verb: str, subject: str, completion: int, reason: int, reason_text: str
    ) -> None:
        super().__init__("MQDLQ-100", f"{verb} of {subject} failed: {reason_text}")
        self.verb = verb
        self.subject = subject
        self.completion = completion
        self.reason = reason


class ClientNotFoundError(MqDlqError):
    """No usable MQ client library is installed."""


class ConnectionSettingsError(MqDlqError):
    """A connection's settings contradict each other or lack something."""


class TransportError(ConnectionSettingsError):
    """The package of a transport is not installed or failed, such as embedded-mq."""


class MalformedHeaderError(MqDlqError, ValueError):
    """The bytes are not the header they should be, or the values do not fit into one.

    `structure` is IBM's name of the header, `offset` where in it the fault is, in bytes;
    `expected` and `found` are words for people and never hold bytes of a message.
    """

    def __init__(self, structure: str, offset: int, expected: str, found: str) -> None:
        super().__init__("", f"{structure} at offset {offset}: expected {expected}, found {found}")
        self.structure = structure
        self.offset = offset
        self.expected = expected
        self.found = found


class PasteError(MqDlqError, ValueError):
    """Pasted text is neither hexadecimal digits nor the output of amqsbcg or dmpmqmsg."""

    def __init__(self, line: int, message: str, name: str = "") -> None:
        """Keep the line (from 1); the text names the file, where it is known, and the line."""
        place = f"{name}:{line}" if name else f"line {line}"
        super().__init__("MQDLQ-906", f"{place}: {message}")
        self.line = line
        self.message = message


class MessageKeyError(MqDlqError, ValueError):
    """A key is not one, or its first digits are those of several messages or of none."""

    parameter = "message_key"


KEYS_NAMED: Final = 4
"""How many keys an error lists."""


def ambiguous_key(digits: str, first: Sequence[str], number: int) -> MessageKeyError:
    """Return the error for digits with which so many keys begin, of which the first are given."""
    shown = ", ".join(key[: len(digits) + 8] for key in first[:KEYS_NAMED])
    more = ", …" if number > KEYS_NAMED else ""
    return MessageKeyError(
        "MQDLQ-904",
        f"key {digits} is the beginning of {number:,} messages' keys ({shown}{more}); give more"
        " digits",
    )


class PackageMissingError(MqDlqError):
    """A command needs a package of an extra that is not installed."""


class HandlerError(MqDlqError, ValueError):
    """A handler's YAML file is not valid."""


class LakeError(MqDlqError):
    """A snapshot, plan or archive copy is missing, incomplete or not what its manifest says."""


class LedgerError(MqDlqError):
    """The ledger contradicts itself or what it is asked to record."""


class OlderLedgerError(LedgerError):
    """The ledger is older than the lake or a state queue, or is not their ledger."""


class LedgerUnavailableError(LedgerError):
    """The ledger's database cannot be reached, opened or used; nothing was recorded.

    `is_transient` says that the fault may end by itself, such as a server that restarts.
    """

    def __init__(self, error_id: str, text: str, *, is_transient: bool = False) -> None:
        super().__init__(error_id, text)
        self.is_transient = is_transient


class HomeError(MqDlqError):
    """A place that a setting such as MQDLQ_HOME names cannot be used."""


class ExecutionError(MqDlqError):
    """A plan may not be executed, or its execution had to stop."""


class AnotherExecutorError(ExecutionError):
    """Another executor acts on the queue at this moment."""


class RestoreError(MqDlqError):
    """Some of the requested messages cannot be restored, or were not restored."""


class UnfinishedRestorationError(RestoreError):
    """Some messages were not put for a reason that may end by itself; another attempt puts them."""


class AccountError(MqDlqError):
    """The account does not add up: the outcomes are not the messages of the snapshot."""


class CertificationError(MqDlqError):
    """The behaviours of a queue manager cannot be tried."""
