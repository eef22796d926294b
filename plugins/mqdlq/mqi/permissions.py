"""A connected queue manager in; which stages its user may carry out, and what is missing, out.

Everything is tried for real, by MQOPEN and MQINQ alone: nothing is browsed, got or put. Source:
IBM MQ docs, "Authorizations for MQI calls".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mqdlq.constants import MQRC
from mqdlq.errors import ConnectionSettingsError, QueueManagerError
from mqdlq.mqi.connect import QueueManager

NOT_AUTHORIZED = MQRC["MQRC_NOT_AUTHORIZED"]
STAGES = ("sense", "dry run", "execution")

ADVICE = {
    "MQRC_NOT_AUTHORIZED": (
        "{user} lacks +connect or +inq on the queue manager, or the login was refused (CONNAUTH,"
        " CHLAUTH; the queue manager's AMQERR01.LOG says which)"
    ),
    "MQRC_Q_MGR_NAME_ERROR": "no queue manager of that name is there; is queue_manager right?",
    "MQRC_Q_MGR_NOT_AVAILABLE": "it is not running, or its listener is not; is the port right?",
    "MQRC_HOST_NOT_AVAILABLE": "nothing answers at that host and port",
    "MQRC_CHANNEL_NOT_AVAILABLE": "the channel is stopped, or has as many users as it takes",
    "MQRC_UNKNOWN_CHANNEL_NAME": "that channel is not defined there; is channel right?",
    "MQRC_CHANNEL_CONFIG_ERROR": "both ends of the channel must have the same CipherSpec",
    "MQRC_KEY_REPOSITORY_ERROR": "key_repository cannot be read here, or has no stashed password",
    "MQRC_SSL_INITIALIZATION_ERROR": "TLS failed; do tls_cipher_spec and certificates fit?",
    "MQRC_SSL_PEER_NAME_MISMATCH": "the certificate is not one the channel expects",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """What a stage failed of: the authority and its object, or another reason than authority."""

    stage: str
    what: str


class _Need(NamedTuple):
    """An authority a stage needs on a queue, and the MQOO_* that asks for it."""

    stage: str
    queue: str
    authority: str
    options: int


def advice(error: QueueManagerError, user: str) -> str:
    """Return an error's text, with what to look at where a connection failed by that reason."""
    for name, text in ADVICE.items():
        if MQRC[name] == error.reason:
            return f"{error}: {text.format(user=_who(user))}"
    return str(error)


def missing(queue_manager: QueueManager, user: str, state_queue: str) -> list[Missing]:
    """Return what keeps the user from sensing, from a dry run and from executing, in this order.

    The dead-letter queue is the queue manager's own. What a rules table sends messages to is not
    known here: execution also needs +put +passall on each of those queues.
    """
    constants = queue_manager.client.CMQC
    try:
        queue = queue_manager.dead_letter_q_name()
    except QueueManagerError as error:
        return [Missing("sense", _words(error, user, "inq", "queue manager", queue_manager.name))]
    except ConnectionSettingsError as error:
        return [Missing("sense", str(error))]
    needs = (
        _Need("sense", queue, "inq", constants.MQOO_INQUIRE),
        _Need("dry run", queue, "browse", constants.MQOO_BROWSE),
        _Need("execution", queue, "get", constants.MQOO_INPUT_SHARED),
        _Need("execution", state_queue, "browse", constants.MQOO_BROWSE),
        _Need("execution", state_queue, "get", constants.MQOO_INPUT_SHARED),
        _Need("execution", state_queue, "put", constants.MQOO_OUTPUT),
    )
    return [fault for need in needs for fault in _try(queue_manager, need, user)]


def told(found: list[Missing], where: str, user: str) -> str:
    """Return for people what the user may do, and what is missing to the rest."""
    by_stage = {stage: [fault.what for fault in found if fault.stage == stage] for stage in STAGES}
    lines, may = [f"connected to {where} as {_who(user)}"], True
    for stage, faults in by_stage.items():
        may = may and not faults
        text = "may" if may else "; ".join(faults) or "needs what is missing above"
        lines.append(f"{stage}: {text}")
    return "\n".join(lines)


def _try(queue_manager: QueueManager, need: _Need, user: str) -> Iterator[Missing]:
    try:
        queue_manager.close(queue_manager.open(need.queue, need.options))
    except QueueManagerError as error:
        # An executor at work holds its state queue: whoever asked was let in as far as that.
        if error.reason != MQRC["MQRC_OBJECT_IN_USE"]:
            yield Missing(need.stage, _words(error, user, need.authority, "queue", need.queue))


def _words(error: QueueManagerError, user: str, authority: str, kind: str, name: str) -> str:
    if error.reason != NOT_AUTHORIZED:
        return str(error)
    is_queue = kind == "queue"
    profile = f"PROFILE('{name}') OBJTYPE(QUEUE)" if is_queue else "OBJTYPE(QMGR)"
    return (
        f"MQRC_NOT_AUTHORIZED (2035): {_who(user)} lacks +{authority} on {kind} {name}"
        f" (SET AUTHREC {profile} PRINCIPAL('{user or '…'}') AUTHADD({authority.upper()}))"
    )


def _who(user: str) -> str:
    return f"user {user}" if user else "the user this process or the channel stands for"
