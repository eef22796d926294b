"""Execute MQOPEN (IBM MQ docs, "MQOPEN")."""

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name, text
from embedded_mq.engine.connection import Connection, OpenObject
from embedded_mq.engine.failures import CallFailedError, check_bits, not_emulated
from embedded_mq.engine.messages import authority_events
from embedded_mq.engine.objects import authority, dynamic_queues
from embedded_mq.engine.objects.resolution import Destination, find_definition, resolve
from embedded_mq.storage.catalogue import Definition
from embedded_mq.structures import MQOD

INPUT = mq.MQOO_INPUT_AS_Q_DEF | mq.MQOO_INPUT_SHARED | mq.MQOO_INPUT_EXCLUSIVE
PASS_OR_SET_CONTEXT = (
    mq.MQOO_PASS_IDENTITY_CONTEXT
    | mq.MQOO_PASS_ALL_CONTEXT
    | mq.MQOO_SET_IDENTITY_CONTEXT
    | mq.MQOO_SET_ALL_CONTEXT
)
# Options that are always fulfilled by a queue manager without clusters and clients.
OPTIONS_ALWAYS_TRUE = (
    mq.MQOO_BIND_ON_OPEN
    | mq.MQOO_BIND_NOT_FIXED
    | mq.MQOO_BIND_ON_GROUP
    | mq.MQOO_NO_READ_AHEAD
    | mq.MQOO_RESOLVE_LOCAL_Q
)
MESSAGES = INPUT | mq.MQOO_BROWSE | mq.MQOO_OUTPUT
ACCESS = MESSAGES | mq.MQOO_INQUIRE | mq.MQOO_SET
KNOWN_OPTIONS = (
    ACCESS
    | mq.MQOO_SAVE_ALL_CONTEXT
    | PASS_OR_SET_CONTEXT
    | mq.MQOO_ALTERNATE_USER_AUTHORITY
    | mq.MQOO_FAIL_IF_QUIESCING
    | OPTIONS_ALWAYS_TRUE
)
MQOD_VERSION_4 = 4
NAMES = mq.names_of("MQOO")

# The authority that each option needs (IBM MQ docs, "Authorizations for MQI calls").
AUTHORITIES = {
    mq.MQOO_INPUT_AS_Q_DEF: "GET",
    mq.MQOO_INPUT_SHARED: "GET",
    mq.MQOO_INPUT_EXCLUSIVE: "GET",
    mq.MQOO_BROWSE: "BROWSE",
    mq.MQOO_OUTPUT: "PUT",
    mq.MQOO_INQUIRE: "INQ",
    mq.MQOO_SET: "SET",
    mq.MQOO_PASS_IDENTITY_CONTEXT: "PASSID",
    mq.MQOO_PASS_ALL_CONTEXT: "PASSALL",
    mq.MQOO_SET_IDENTITY_CONTEXT: "SETID",
    mq.MQOO_SET_ALL_CONTEXT: "SETALL",
}
CONTEXT = frozenset({"PASSID", "PASSALL", "SETID", "SETALL"})
AUTHORITIES_ON_BOTH = frozenset({"SETID", "SETALL"})
"""Needed on the queue manager as well as on the queue (IBM MQ docs, "setmqaut")."""


def open_object(
    connection: Connection, od: MQOD, options: int, *, is_registered: bool = True
) -> OpenObject:
    """Open the object that the descriptor names, and fill in its resolved names.

    Opening a model queue creates a dynamic queue, whose name is returned in ObjectName. MQPUT1
    opens its object without registering it: it accepts a queue only, but not a model queue, and
    closes it in the same call, so that other applications never see the open handle.
    """
    try:
        return _open(connection, od, options, is_registered=is_registered)
    except CallFailedError as failure:
        user = text(od.alternate_user_id) if _has_alternate_user(connection, options) else ""
        authority_events.report_refusal(connection, failure, od, options, user or connection.user)
        raise


def _has_alternate_user(connection: Connection, options: int) -> bool:
    """Return whether an alternate user is checked, whom the connection's user may stand for."""
    if not options & mq.MQOO_ALTERNATE_USER_AUTHORITY:
        return False
    catalogue = connection.store.catalogue()
    return "ALTUSR" in authority.granted_authorities(
        catalogue, connection.user, authority.QUEUE_MANAGER, catalogue.name
    )


def _open(connection: Connection, od: MQOD, options: int, *, is_registered: bool) -> OpenObject:
    _check_options(options)
    _check_descriptor(od)
    if options & mq.MQOO_FAIL_IF_QUIESCING:
        connection.check_not_quiescing()
    if od.object_type == mq.MQOT_Q_MGR and is_registered:
        return _open_queue_manager(connection, od, options)
    if od.object_type == mq.MQOT_Q_MGR:
        raise CallFailedError("MQRC_OBJECT_TYPE_ERROR")
    if od.object_type != mq.MQOT_Q:
        raise not_emulated(f"MQOD.ObjectType {od.object_type}", "MQRC_OBJECT_TYPE_ERROR")
    connection.release_orphaned_messages()
    destination = _destination(connection, od, options)
    _check_authority(connection, od, destination.path[0], options)
    is_model = destination.queue.type == mq.MQQT_MODEL
    if is_model and not is_registered:
        raise CallFailedError("MQRC_Q_TYPE_ERROR")
    if is_model:
        destination = Destination((_create_dynamic_queue(connection, od, destination.queue),))
    opened = connection.add_object(options, destination)
    opened.has_created = is_model
    if is_registered:
        _register_handle(connection, opened, destination.queue)
    catalogue = connection.store.catalogue()
    resolved = destination.remote or (opened.path(catalogue)[-1].name, catalogue.name)
    od.resolved_q_name, od.resolved_q_mgr_name = map(object_name, resolved)
    return opened


def _destination(connection: Connection, od: MQOD, options: int) -> Destination:
    catalogue = connection.store.catalogue()
    name, q_mgr_name = text(od.object_name), text(od.object_q_mgr_name)
    if not options & MESSAGES:
        return Destination((find_definition(catalogue, name, q_mgr_name),))
    destination = resolve(catalogue, name, q_mgr_name)
    _check_type(destination, options)
    return destination


def _check_options(options: int) -> None:
    check_bits(options, KNOWN_OPTIONS, "MQOO", NAMES)
    wrong = (
        not options & ACCESS
        or (options & INPUT).bit_count() > 1
        or (options & mq.MQOO_SAVE_ALL_CONTEXT and not options & INPUT)
        or (options & PASS_OR_SET_CONTEXT and not options & mq.MQOO_OUTPUT)
    )
    if wrong:
        raise CallFailedError("MQRC_OPTIONS_ERROR")


def _check_descriptor(od: MQOD) -> None:
    if od.struc_id != b"OD  " or od.version not in range(1, 5):
        raise CallFailedError("MQRC_OD_ERROR")
    if od.version > 1 and od.recs_present:
        raise not_emulated("a distribution list (MQOD.RecsPresent)", "MQRC_RECS_PRESENT_ERROR")
    if od.version >= MQOD_VERSION_4 and any(od.selection_string[:8]):  # its pointer
        raise not_emulated("MQOD.SelectionString", "MQRC_SELECTION_NOT_AVAILABLE")


def _open_queue_manager(connection: Connection, od: MQOD, options: int) -> OpenObject:
    name = connection.store.catalogue().name
    if text(od.object_q_mgr_name) not in {"", name}:
        raise CallFailedError("MQRC_UNKNOWN_REMOTE_Q_MGR")
    if options & ACCESS != mq.MQOO_INQUIRE:
        raise CallFailedError("MQRC_OPTION_NOT_VALID_FOR_TYPE")
    user = _user(connection, od, options)
    connection.check_authority(authority.QUEUE_MANAGER, name, "INQ", user=user)
    return connection.add_object(options, None)


def _user(connection: Connection, od: MQOD, options: int) -> str:
    """Return the user whose authority is checked: the connection's, or the alternate user."""
    if not options & mq.MQOO_ALTERNATE_USER_AUTHORITY:
        return connection.user
    connection.check_authority(authority.QUEUE_MANAGER, connection.store.catalogue().name, "ALTUSR")
    return text(od.alternate_user_id)


def _check_authority(connection: Connection, od: MQOD, queue: Definition, options: int) -> None:
    """Check the authority for the options on the queue that was named, not on its target.

    To pass or set context, the connection's own user needs the authority even with an alternate
    user (IBM MQ docs, "AlternateUserId (MQOD)").
    """
    if not connection.store.catalogue().authorities:
        return
    user = _user(connection, od, options)
    needed = {word for option, word in AUTHORITIES.items() if options & option}
    connection.check_authority(authority.QUEUE, queue.name, *needed - CONTEXT, user=user)
    connection.check_authority(authority.QUEUE, queue.name, *needed & CONTEXT)
    name = connection.store.catalogue().name
    connection.check_authority(authority.QUEUE_MANAGER, name, *needed & AUTHORITIES_ON_BOTH)


def _check_type(destination: Destination, options: int) -> None:
    """Refuse to get from a remote queue, and to inquire a queue without a local definition."""
    if destination.remote is None:
        return
    refused = INPUT | mq.MQOO_BROWSE
    if destination.path[0].type == mq.MQQT_LOCAL:
        refused |= mq.MQOO_INQUIRE | mq.MQOO_SET
    if options & refused:
        raise CallFailedError("MQRC_OPTION_NOT_VALID_FOR_TYPE")


def _create_dynamic_queue(connection: Connection, od: MQOD, model: Definition) -> Definition:
    with connection.store.transaction():
        queue = dynamic_queues.create(connection, model, text(od.dynamic_q_name))
    od.object_name = object_name(queue.name)
    od.object_q_mgr_name = object_name(connection.store.catalogue().name)
    return queue


def object_name_in(packed: bytes) -> str:
    """Return the ObjectName of a packed MQOD."""
    return text(MQOD.unpack(packed).object_name)


def _register_handle(connection: Connection, opened: OpenObject, queue: Definition) -> None:
    """Register the handle for all connections (MQRC_OBJECT_IN_USE if another excludes it)."""
    kind = opened.options & INPUT
    if kind == mq.MQOO_INPUT_AS_Q_DEF:
        kind = queue.number("DEFSOPT")
    is_exclusive = bool(kind) and (
        kind == mq.MQOO_INPUT_EXCLUSIVE or queue.number("SHARE") == mq.MQQA_NOT_SHAREABLE
    )
    try:
        with connection.store.transaction():
            if kind:
                _check_not_in_use(connection, queue, is_exclusive=is_exclusive)
            connection.store.execute(
                "INSERT INTO open_handle VALUES(?, ?, ?, ?, ?, ?, ?)",
                (
                    connection.connection_id,
                    opened.handle,
                    queue.queue_id,
                    bool(kind),
                    is_exclusive,
                    opened.allows(mq.MQOO_OUTPUT),
                    opened.options,
                ),
            )
    except CallFailedError:
        connection.drop_object(opened)
        raise


def _check_not_in_use(connection: Connection, queue: Definition, *, is_exclusive: bool) -> None:
    """Raise CallFailedError if another handle excludes this one, except for dead connections'."""
    query = "SELECT 1 FROM open_handle WHERE queue_id = ? AND input AND (exclusive OR ?) LIMIT 1"
    values = (queue.queue_id, is_exclusive)
    if connection.store.fetch_value(query, values) is None:
        return
    if (
        not connection.recover_dead_connections()
        or connection.store.fetch_value(query, values) is not None
    ):
        raise CallFailedError("MQRC_OBJECT_IN_USE")
