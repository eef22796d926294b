"""Run the PCF commands that change queues, and return their responses.

IBM MQ docs, "Definitions of the Programmable Command Formats" and "Authorizations for PCF
commands". The user in the command's message descriptor needs the authority. Here CRT is granted by
the name of the queue to create; in IBM MQ it is granted for all queues. `queue_objects` creates and
changes the queues, as for MQSC; `attributes` declares the attributes.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.objects import authority, queue_objects
from embedded_mq.engine.objects.attributes import QUEUE_ATTRIBUTES
from embedded_mq.engine.objects.queue_objects import KIND_OF
from embedded_mq.pcf import constants as cf
from embedded_mq.pcf.arguments import Types, check, new_values, types_of
from embedded_mq.pcf.messages import Parameter, PcfError
from embedded_mq.storage.catalogue import Catalogue

Responses = list[list[Parameter]]
"""The parameters of each response message; at least one message."""

DONE: Responses = [[]]
_NAME = {mq.MQCA_Q_NAME: cf.MQCFT_STRING}
_NAME_AND_TYPE = {**_NAME, mq.MQIA_Q_TYPE: cf.MQCFT_INTEGER}


@dataclass(frozen=True, slots=True)
class Request:
    """The parameters of a command, and its user."""

    connection: Connection
    user: str
    parameters: Sequence[Parameter]

    @property
    def catalogue(self) -> Catalogue:
        """The current definitions."""
        return self.connection.store.catalogue()

    def check_authority(self, kind: str, name: str, needed: str) -> None:
        """Raise CallFailedError if the user lacks authority on an object (MQRC_NOT_AUTHORIZED)."""
        authority.check(self.catalogue, self.user, kind, name, (needed,))

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block as a write transaction that is on disk when it ends."""
        return self.connection.store.transaction(durable=True)


def ping_queue_manager(request: Request) -> Responses:
    """Answer MQCMD_PING_Q_MGR: the queue manager and its command server are running."""
    check(request.parameters, {}, {})
    return DONE


def create_queue(request: Request) -> Responses:
    """Run MQCMD_CREATE_Q: define or replace a queue of any type."""
    queue_type = _type_given(request.parameters)
    arguments = check(
        request.parameters,
        _NAME_AND_TYPE,
        {
            **_settable(queue_type),
            cf.MQCACF_FROM_Q_NAME: cf.MQCFT_STRING,
            cf.MQIACF_REPLACE: cf.MQCFT_INTEGER,
            cf.MQIACF_FORCE: cf.MQCFT_INTEGER,
        },
    )
    name = arguments.text(mq.MQCA_Q_NAME)
    like = arguments.text(cf.MQCACF_FROM_Q_NAME) or None
    replace = arguments.flag(cf.MQIACF_REPLACE, "MQRCCF_REPLACE_VALUE_ERROR")
    arguments.flag(cf.MQIACF_FORCE, "MQRCCF_FORCE_VALUE_ERROR")
    values = new_values(arguments, queue_type)
    with request.transaction():
        if replace and name in request.catalogue.by_name:
            request.check_authority(authority.QUEUE, name, "CHG")
        else:
            request.check_authority(authority.QUEUE, name, "CRT")
        model = like or f"SYSTEM.DEFAULT.{DEFAULT_OBJECTS[queue_type]}.QUEUE"
        request.check_authority(authority.QUEUE, model, "DSP")
        queue_objects.create(
            request.connection, queue_type, name, values, like=like, replace=replace
        )
    return DONE


DEFAULT_OBJECTS = {
    mq.MQQT_LOCAL: "LOCAL",
    mq.MQQT_ALIAS: "ALIAS",
    mq.MQQT_REMOTE: "REMOTE",
    mq.MQQT_MODEL: "MODEL",
}
"""The queue SYSTEM.DEFAULT.<word>.QUEUE has the defaults of each type of queue."""


def change_queue(request: Request) -> Responses:
    """Run MQCMD_CHANGE_Q: change attributes of a queue."""
    queue_type = _type_given(request.parameters)
    optional = {**_settable(queue_type), cf.MQIACF_FORCE: cf.MQCFT_INTEGER}
    arguments = check(request.parameters, _NAME_AND_TYPE, optional)
    arguments.flag(cf.MQIACF_FORCE, "MQRCCF_FORCE_VALUE_ERROR")
    values = new_values(arguments, queue_type)
    name = arguments.text(mq.MQCA_Q_NAME)
    with request.transaction():
        request.check_authority(authority.QUEUE, name, "CHG")
        queue_objects.change(request.connection, queue_type, name, values)
    return DONE


def delete_queue(request: Request) -> Responses:
    """Run MQCMD_DELETE_Q: delete a queue, with its messages if Purge says so."""
    optional = {mq.MQIA_Q_TYPE: cf.MQCFT_INTEGER, cf.MQIACF_PURGE: cf.MQCFT_INTEGER}
    arguments = check(request.parameters, _NAME, optional)
    purge = arguments.flag(cf.MQIACF_PURGE, "MQRCCF_PURGE_VALUE_ERROR")
    name = arguments.text(mq.MQCA_Q_NAME)
    queue_type = arguments.values.get(mq.MQIA_Q_TYPE)
    with request.transaction():
        request.check_authority(authority.QUEUE, name, "DLT")
        request.connection.recover_dead_connections()
        queue = queue_objects.find_existing(request.connection, name, queue_type)
        queue_objects.delete(request.connection, queue, purge=purge)
    return DONE


def clear_queue(request: Request) -> Responses:
    """Run MQCMD_CLEAR_Q: remove the messages of a local queue."""
    name = check(request.parameters, _NAME, {}).text(mq.MQCA_Q_NAME)
    with request.transaction():
        request.check_authority(authority.QUEUE, name, "CLR")
        request.connection.recover_dead_connections()
        queue = queue_objects.find_existing(request.connection, name)
        queue_objects.clear(request.connection, queue)
    return DONE


def _type_given(parameters: Sequence[Parameter]) -> int:
    """Return the type of queue, on which the allowed parameters depend."""
    found = [each.value for each in parameters if each.identifier == mq.MQIA_Q_TYPE]
    if found and found[0] not in KIND_OF:
        raise PcfError.about("MQRCCF_Q_TYPE_ERROR", mq.MQIA_Q_TYPE)
    number = found[0] if found else mq.MQQT_LOCAL
    return number if isinstance(number, int) else mq.MQQT_LOCAL


def _settable(queue_type: int) -> Types:
    return types_of(QUEUE_ATTRIBUTES[queue_type])


Command = Callable[[Request], Responses]
CHANGING: Mapping[int, Command] = {
    cf.MQCMD_CREATE_Q: create_queue,
    cf.MQCMD_CHANGE_Q: change_queue,
    cf.MQCMD_DELETE_Q: delete_queue,
    cf.MQCMD_CLEAR_Q: clear_queue,
    cf.MQCMD_PING_Q_MGR: ping_queue_manager,
}
