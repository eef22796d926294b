"""Resolve the queue name and the queue manager name of an object to a local queue.

IBM MQ docs, "How queue name resolution works", "2057 (0809) (RC2057)", "2087 (0827) (RC2087)",
"2184 (0888) (RC2184)" and the other reason codes of "MQOPEN".
"""

from dataclasses import dataclass

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.storage.catalogue import Catalogue, Definition


@dataclass(frozen=True, slots=True)
class Destination:
    """The target of a name: the definitions from the opened queue to the local queue.

    If the last queue is a transmission queue, `remote` has the names of the queue and of the queue
    manager for the MQXQH.
    """

    path: tuple[Definition, ...]
    remote: tuple[str, str] | None = None

    @property
    def queue(self) -> Definition:
        """The queue that holds the messages."""
        return self.path[-1]


def find_definition(catalogue: Catalogue, name: str, q_mgr_name: str) -> Definition:
    """Return the definition with a name, for inquiring and setting."""
    if q_mgr_name in ("", catalogue.name) and name in catalogue.by_name:
        return catalogue.by_name[name]
    raise CallFailedError("MQRC_UNKNOWN_OBJECT_NAME")


def resolve(catalogue: Catalogue, name: str, q_mgr_name: str) -> Destination:
    """Resolve a name to the local queue that gets its messages."""
    if q_mgr_name not in ("", catalogue.name):
        return _resolve_remote(catalogue, name, q_mgr_name)
    queue = catalogue.by_name.get(name)
    if queue is None:
        raise CallFailedError("MQRC_UNKNOWN_OBJECT_NAME")
    if queue.type == mq.MQQT_ALIAS:
        return _resolve_alias(catalogue, queue)
    if queue.type == mq.MQQT_REMOTE:
        return _resolve_remote_definition(catalogue, queue)
    return Destination((queue,))


def _resolve_alias(catalogue: Catalogue, alias: Definition) -> Destination:
    base = catalogue.by_name.get(alias.text("TARGET"))
    if base is None:
        raise CallFailedError("MQRC_UNKNOWN_ALIAS_BASE_Q")
    if base.type == mq.MQQT_ALIAS:
        raise CallFailedError("MQRC_ALIAS_BASE_Q_TYPE_ERROR")
    if base.type == mq.MQQT_LOCAL:
        return Destination((alias, base))
    target = _resolve_remote_definition(catalogue, base)
    return Destination((alias, *target.path), target.remote)


def _resolve_remote_definition(catalogue: Catalogue, definition: Definition) -> Destination:
    name, q_mgr_name = definition.text("RNAME"), definition.text("RQMNAME")
    if not name:
        raise CallFailedError("MQRC_REMOTE_Q_NAME_ERROR")
    if q_mgr_name in ("", catalogue.name):  # even where XMITQ names a transmission queue
        raise CallFailedError("MQRC_UNKNOWN_REMOTE_Q_MGR")
    queue = _transmission_queue(catalogue, definition.text("XMITQ"), q_mgr_name)
    return Destination((definition, queue), (name, q_mgr_name))


def _resolve_remote(catalogue: Catalogue, name: str, q_mgr_name: str) -> Destination:
    """Resolve a name at another queue manager by a transmission queue or queue-manager alias."""
    if not name:
        raise CallFailedError("MQRC_REMOTE_Q_NAME_ERROR")
    definition = catalogue.by_name.get(q_mgr_name)
    if definition is not None and definition.type == mq.MQQT_REMOTE:
        if definition.text("RNAME"):  # then it defines a queue, not an alias
            raise CallFailedError("MQRC_UNKNOWN_REMOTE_Q_MGR")
        real_name = definition.text("RQMNAME")
        if real_name in ("", catalogue.name) and not definition.text("XMITQ"):
            return _resolve_local(catalogue, name)
        queue = _transmission_queue(catalogue, definition.text("XMITQ"), real_name)
        return Destination((queue,), (name, real_name))
    queue = _transmission_queue(catalogue, "", q_mgr_name)
    return Destination((queue,), (name, q_mgr_name))


def _resolve_local(catalogue: Catalogue, name: str) -> Destination:
    """Resolve a name at an alias of this queue manager, which creates no dynamic queues."""
    destination = resolve(catalogue, name, "")
    if destination.queue.type == mq.MQQT_MODEL:
        raise CallFailedError("MQRC_Q_TYPE_ERROR")
    return destination


def _transmission_queue(catalogue: Catalogue, name: str, q_mgr_name: str) -> Definition:
    """Find the transmission queue: by name, else by the queue manager's name, else DEFXMITQ."""
    if name or q_mgr_name in catalogue.by_name:
        queue = catalogue.by_name.get(name or q_mgr_name)
        if queue is None:
            raise CallFailedError("MQRC_UNKNOWN_XMIT_Q")
        return _check_transmission_queue(queue, "MQRC_XMIT_Q_TYPE_ERROR", "MQRC_XMIT_Q_USAGE_ERROR")
    default = str(catalogue.queue_manager["DEFXMITQ"])
    if not default:
        raise CallFailedError("MQRC_UNKNOWN_REMOTE_Q_MGR")
    queue = catalogue.by_name.get(default)
    if queue is None:
        raise CallFailedError("MQRC_UNKNOWN_DEF_XMIT_Q")
    return _check_transmission_queue(
        queue, "MQRC_DEF_XMIT_Q_TYPE_ERROR", "MQRC_DEF_XMIT_Q_USAGE_ERROR"
    )


def _check_transmission_queue(
    queue: Definition, not_local: str, not_for_transmission: str
) -> Definition:
    if queue.type != mq.MQQT_LOCAL:
        raise CallFailedError(not_local)
    if not queue.is_transmission_queue:
        raise CallFailedError(not_for_transmission)
    return queue
