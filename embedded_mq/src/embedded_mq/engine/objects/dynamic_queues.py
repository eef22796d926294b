"""Create dynamic queues from model queues.

IBM MQ docs, "Dynamic and model queues", "DynamicQName (MQOD)".
"""

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.engine.objects import authority, definitions
from embedded_mq.storage.catalogue import CREATED_BY, DEFINITION_TYPE, Definition
from embedded_mq.storage.directories import NAME

ANY = "*"
NAME_LENGTH = 48
LONGEST_PREFIX = 32


def create(connection: Connection, model: Definition, wanted: str) -> Definition:
    """Create a local queue with the attributes of a model, inside a write transaction.

    `wanted` is its name, or with an asterisk at the end the beginning of its name. A complete name
    must not exist yet (MQRC_OBJECT_ALREADY_EXISTS).
    """
    store = connection.store
    name = wanted
    if wanted.endswith(ANY):
        prefix = wanted[:-1][:LONGEST_PREFIX]
        name = prefix + connection.new_id()[-8:].hex().upper()
    if not NAME.fullmatch(name):
        raise CallFailedError("MQRC_DYNAMIC_Q_NAME_ERROR")
    if name in store.catalogue().by_name:
        raise CallFailedError("MQRC_OBJECT_ALREADY_EXISTS")
    attributes = {key: value for key, value in model.attributes.items() if key != "DEFTYPE"}
    attributes |= {
        DEFINITION_TYPE: model.number("DEFTYPE"),
        CREATED_BY: connection.connection_id,
    }
    queue_id = definitions.add(store, name, mq.MQQT_LOCAL, attributes)
    _grant_everything(connection, name)
    return store.catalogue().by_id[queue_id]


def _grant_everything(connection: Connection, name: str) -> None:
    """Grant the creator of the queue every authority on it, if authority is checked."""
    if connection.store.catalogue().authorities:
        words = " ".join(sorted(authority.AUTHORITIES[authority.QUEUE]))
        connection.store.execute(
            "INSERT OR REPLACE INTO authority VALUES(?, ?, ?, ?)",
            (authority.QUEUE, name, connection.user, words),
        )
        connection.store.definitions_changed()
