"""Check which stages of a run the connected user has the authority for.

The check makes real MQOPEN and MQINQ calls only; it browses, gets and puts no message. IBM MQ docs,
"Authorizations for MQI calls".
"""

from collections.abc import Iterator, Sequence

from mqdlq.constants import MQRC
from mqdlq.errors import ConnectionSettingsError, QueueManagerError
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect
from mqdlq.mqi.inquiries import run_command

MQCHT_SVRCONN = 7
STAGES = ("sense", "dry run", "execution")
GRANTED = "no authority is missing"

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


Missing = tuple[str, str]
"""A stage, and why it fails: a missing authority and its object, or another error."""

_Need = tuple[str, str, dict[str, int]]
"""A stage, a queue, and the authorities that it needs there, each with the MQOO_* that tests it."""


def advice(error: QueueManagerError, user: str) -> str:
    for name, text in ADVICE.items():
        if MQRC[name] == error.reason:
            return f"{error.text}: {text.format(user=_user_text(user))} [{error.error_id}]"
    return str(error)


def check_connection(settings: ConnectionSettings, state_queue: str) -> tuple[bool, str]:
    """Connect; return whether sensing would succeed, and what the user may and may not do.

    Checks the queue manager's dead-letter queue and `state_queue`; the targets of rules are not
    known here. Raises ConnectionSettingsError and ClientNotFoundError.
    """
    try:
        with connect(settings) as queue_manager:
            found = find_missing(queue_manager, settings.user, state_queue)
            where = f"queue manager {queue_manager.name} through {queue_manager.client.name}"
            return "sense" not in dict(found), describe_stages(found, where, settings.user)
    except QueueManagerError as error:
        return False, advice(error, settings.user)


def find_missing(
    queue_manager: QueueManager,
    user: str,
    state_queue: str,
    *,
    queue: str = "",
    targets: tuple[str, ...] = (),
) -> list[Missing]:
    """Return what prevents the user from sensing, a dry run and execution, in this order.

    Without `queue`, the queue manager's dead-letter queue is checked. `targets` are the queues to
    which messages are put with all context; queues that only messages name are not known here.
    """
    constants = queue_manager.client.CMQC
    try:
        queue = queue or queue_manager.dead_letter_q_name()
    except QueueManagerError as error:
        if error.reason != MQRC["MQRC_NOT_AUTHORIZED"]:
            return [("sense", str(error))]
        missing = _missing_authorities(user, ["inq"], "queue manager", queue_manager.name)
        return [("sense", missing)]
    except ConnectionSettingsError as error:
        return [("sense", str(error))]
    browse, get = constants.MQOO_BROWSE, constants.MQOO_INPUT_SHARED
    put = constants.MQOO_OUTPUT
    to_target = {"put": put, "passall": put | constants.MQOO_PASS_ALL_CONTEXT}
    needs: list[_Need] = [
        ("sense", queue, {"inq": constants.MQOO_INQUIRE}),
        ("dry run", queue, {"browse": browse}),
        ("execution", queue, {"get": get}),
        ("execution", state_queue, {"browse": browse, "get": get, "put": put}),
        *(("execution", target, to_target) for target in targets),
    ]
    return [fault for need in needs for fault in _try(queue_manager, need, user)]


def find_unreadable(
    queue_manager: QueueManager, user: str, queues: tuple[str, ...]
) -> list[Missing]:
    """Return why the user cannot browse queues that have evidence, such as an event queue."""
    browse = {"browse": queue_manager.client.CMQC.MQOO_BROWSE}
    tried = (_try(queue_manager, ("evidence", queue, browse), user) for queue in queues)
    return [fault for faults in tried for fault in faults]


def check_channel(queue_manager: QueueManager, channel: str, connections: int) -> tuple[bool, str]:
    """Return whether a channel may allow as many connections of this client, and what it allows.

    The channel's definition is inquired through the command server. A user who may not
    inquire it reads what to compare; the client then finds out when it connects.
    """
    fields = queue_manager.client.module.CMQCFC
    attributes = [
        fields.MQIACH_MAX_INSTANCES,
        fields.MQIACH_MAX_INSTS_PER_CLIENT,
        fields.MQIACH_SHARING_CONVERSATIONS,
    ]
    asked = {
        fields.MQCACH_CHANNEL_NAME: channel.encode("ascii", "replace"),
        fields.MQIACH_CHANNEL_TYPE: MQCHT_SVRCONN,
        fields.MQIACF_CHANNEL_ATTRS: attributes,
    }
    try:
        first, *_ = run_command(queue_manager, "MQCMD_INQUIRE_CHANNEL", asked)
    except QueueManagerError as error:
        return True, (
            f"what channel {channel} allows is not known ({error.text}): compare the {connections}"
            f" connections with DISPLAY CHANNEL({channel}) MAXINST MAXINSTC SHARECNV"
        )
    return compare_channel(channel, connections, [first[one] for one in attributes])


def compare_channel(channel: str, connections: int, allowed: Sequence[int]) -> tuple[bool, str]:
    """Compare connections with the MAXINST, MAXINSTC and SHARECNV of their channel.

    Connections of one process share an instance of a channel, as many as SHARECNV says; 0 and 1
    mean an instance for each (IBM MQ docs, "Sharing conversations (SHARECNV)").
    """
    of_all, of_a_client, shared = allowed
    instances = -(-connections // max(1, shared))
    is_enough = instances <= min(of_all, of_a_client)
    limits = f"MAXINST({of_all}) MAXINSTC({of_a_client}) SHARECNV({shared})"
    needs = f"channel {channel} has {limits}; {connections} connections need {instances} of it"
    return is_enough, needs if is_enough else f"{needs}: raise its limit, or lower connections"


def describe_stages(found: list[Missing], where: str, user: str) -> str:
    lines, granted = [f"connected to {where} as {_user_text(user)}"], True
    for stage in STAGES:
        faults = [fault for failing, fault in found if failing == stage]
        granted = granted and not faults
        text = GRANTED if granted else "; ".join(faults) or "needs what is missing above"
        lines.append(f"{stage}: {text}")
    return "\n".join(lines)


def _try(queue_manager: QueueManager, need: _Need, user: str) -> Iterator[Missing]:
    stage, queue, authorities = need
    lacking: dict[str, int] = {}
    for authority, options in authorities.items():
        try:
            queue_manager.close(queue_manager.open(queue, options))
        except QueueManagerError as error:
            if error.reason == MQRC["MQRC_NOT_AUTHORIZED"]:
                lacking[authority] = options
            # A running executor holds its state queue; the authority was checked before that.
            elif error.reason != MQRC["MQRC_OBJECT_IN_USE"]:
                yield stage, str(error)
                return
    if lacking:
        # An open with a missing authority among its options says nothing about the others.
        unknown = [
            authority
            for authority, options in lacking.items()
            if any(other != options and other & options == other for other in lacking.values())
        ]
        known = [authority for authority in lacking if authority not in unknown]
        yield stage, _missing_authorities(user, known, "queue", queue, unknown)


def _missing_authorities(
    user: str, authorities: list[str], kind: str, name: str, unknown: Sequence[str] = ()
) -> str:
    """Return what the user lacks, and the command that grants it and the `unknown` authorities."""
    profile = f"PROFILE('{name}') OBJTYPE(QUEUE)" if kind == "queue" else "OBJTYPE(QMGR)"
    lacking = " ".join(f"+{authority}" for authority in authorities)
    granted = ",".join(authority.upper() for authority in (*authorities, *unknown))
    untested = "".join(f", without which +{one} cannot be checked" for one in unknown)
    return (
        f"MQRC_NOT_AUTHORIZED (2035): {_user_text(user)} lacks {lacking} on {kind} {name}{untested}"
        f" (SET AUTHREC {profile} PRINCIPAL('{user or '…'}') AUTHADD({granted}))"
    )


def _user_text(user: str) -> str:
    return f"user {user}" if user else "the user this process or the channel stands for"
