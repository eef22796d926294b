"""Execute MQCLOSE, which may delete a dynamic queue (IBM MQ docs, "MQCLOSE")."""

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection, OpenObject
from embedded_mq.engine.failures import CallFailedError, check_bits
from embedded_mq.engine.messages import selection
from embedded_mq.engine.objects import definitions
from embedded_mq.storage.catalogue import DEFINITION_TYPE, Definition

DELETE_OPTIONS = mq.MQCO_DELETE | mq.MQCO_DELETE_PURGE
NAMES = mq.names_of("MQCO")


def close(connection: Connection, handle: int, options: int) -> None:
    """Close an object; the unit of work stays open.

    Closing the handle that created a temporary dynamic queue deletes the queue; the options may
    delete a permanent dynamic queue (MQRC_Q_NOT_EMPTY if it has messages).
    """
    opened = connection.find_object(handle)
    check_bits(options, DELETE_OPTIONS, "MQCO", NAMES)
    if options == DELETE_OPTIONS:
        raise CallFailedError("MQRC_OPTIONS_ERROR")
    queue = _queue(connection, opened)
    if options and not _may_delete(opened, queue):
        raise CallFailedError("MQRC_OPTION_NOT_VALID_FOR_TYPE")
    if opened.queue_ids:
        with connection.store.transaction():
            goes = queue and (options or (queue.is_temporary and opened.has_created))
            if queue is not None and goes:
                _delete(connection, queue, options)
            _release_handle(connection, opened)
    connection.drop_object(opened)


def _queue(connection: Connection, opened: OpenObject) -> Definition | None:
    """Return the queue, or None if it has been deleted."""
    by_id = connection.store.catalogue().by_id
    return by_id.get(opened.queue_ids[-1]) if opened.queue_ids else None


def _may_delete(opened: OpenObject, queue: Definition | None) -> bool:
    if queue is None:
        return False
    if queue.is_temporary:
        return opened.has_created
    return queue.number(DEFINITION_TYPE) == mq.MQQDT_PERMANENT_DYNAMIC


def _release_handle(connection: Connection, opened: OpenObject) -> None:
    selection.unlock(connection, opened)
    connection.store.execute(
        "DELETE FROM open_handle WHERE connection_id = ? AND handle = ?",
        (connection.connection_id, opened.handle),
    )


def _delete(connection: Connection, queue: Definition, options: int) -> None:
    store, queue_id = connection.store, queue.queue_id
    if not queue.is_temporary:
        is_not_empty = definitions.has_uncommitted(store, queue_id) or (
            options & mq.MQCO_DELETE and store.depth(queue_id)
        )
        if is_not_empty:
            raise CallFailedError("MQRC_Q_NOT_EMPTY")
    definitions.remove(store, queue_id)
