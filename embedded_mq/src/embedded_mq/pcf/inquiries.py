"""Run the PCF commands that inquire queues, their names, the queue manager, and clusters.

IBM MQ docs, "Inquire Queue", "Inquire Queue Names", "Inquire Queue Manager", "Inquire Queue Manager
Status", "Inquire Cluster Queue Manager" and the response of each. A generic name omits queues that
the user may not display.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.engine.objects import authority
from embedded_mq.engine.objects.attributes import Value
from embedded_mq.engine.objects.inquiring import (
    NAME_LENGTH,
    QUEUE_MANAGER_SELECTORS,
    QUEUE_SELECTORS,
    queue_manager_values,
    queue_values,
)
from embedded_mq.engine.objects.queue_objects import KIND_OF, check_name, matches_name
from embedded_mq.pcf import constants as cf
from embedded_mq.pcf.arguments import Arguments, check, matches_filter
from embedded_mq.pcf.commands import Command, Request, Responses
from embedded_mq.pcf.messages import Parameter, PcfError, integer, integers, string, strings
from embedded_mq.storage.catalogue import Definition

NAME = {mq.MQCA_Q_NAME: cf.MQCFT_STRING}
DATE_LENGTH, TIME_LENGTH = 12, 8


def inquire_queues(request: Request) -> Responses:
    """Run MQCMD_INQUIRE_Q: return the attributes of each queue that matches the name.

    ClusterInfo adds nothing: there are no clusters.
    """
    optional = {
        mq.MQIA_Q_TYPE: cf.MQCFT_INTEGER,
        cf.MQIACF_CLUSTER_INFO: cf.MQCFT_INTEGER,
        cf.MQIACF_Q_ATTRS: cf.MQCFT_INTEGER_LIST,
    }
    arguments = check(request.parameters, NAME, optional, QUEUE_SELECTORS)
    asked = arguments.selectors(cf.MQIACF_Q_ATTRS, QUEUE_SELECTORS) | {
        mq.MQCA_Q_NAME,
        mq.MQIA_Q_TYPE,
        *filtered_by(arguments),
    }
    responses = []
    for queue in selected_queues(request, arguments):
        values = queue_values(request.connection, queue, asked)
        if matches_filter(values, arguments.filter):
            first = [mq.MQCA_Q_NAME, mq.MQIA_Q_TYPE]
            chosen = [*first, *(each for each in values if each in asked and each not in first)]
            responses.append(attribute_parameters(values, chosen, QUEUE_SELECTORS))
    if not responses:
        raise PcfError.about("MQRC_UNKNOWN_OBJECT_NAME", mq.MQCA_Q_NAME)
    return responses


def inquire_queue_names(request: Request) -> Responses:
    """Run MQCMD_INQUIRE_Q_NAMES: return a list of names, possibly empty, and of their types."""
    arguments = check(request.parameters, NAME, {mq.MQIA_Q_TYPE: cf.MQCFT_INTEGER})
    pattern, wanted = _pattern(arguments), _type(arguments)
    found = [
        queue
        for queue in request.catalogue.by_name.values()
        if matches_name(queue.name, pattern) and wanted in {mq.MQQT_ALL, queue.type}
    ]
    names = strings(cf.MQCACF_Q_NAMES, [object_name(queue.name) for queue in found])
    return [[names, integers(cf.MQIACF_Q_TYPES, [queue.type for queue in found])]]


def inquire_queue_manager(request: Request) -> Responses:
    """Run MQCMD_INQUIRE_Q_MGR: return the attributes of the queue manager."""
    arguments = check(request.parameters, {}, {cf.MQIACF_Q_MGR_ATTRS: cf.MQCFT_INTEGER_LIST})
    asked = arguments.selectors(cf.MQIACF_Q_MGR_ATTRS, QUEUE_MANAGER_SELECTORS)
    values = queue_manager_values(request.catalogue)
    chosen = [mq.MQCA_Q_MGR_NAME, *(each for each in asked if each != mq.MQCA_Q_MGR_NAME)]
    return [attribute_parameters(values, chosen, QUEUE_MANAGER_SELECTORS)]


STATUS_LENGTHS: Mapping[int, int] = {
    mq.MQCA_Q_MGR_NAME: NAME_LENGTH,
    cf.MQIACF_Q_MGR_STATUS: 0,
    cf.MQIACF_Q_MGR_FS_IN_USE: 0,
    cf.MQIACF_Q_MGR_FS_SIZE: 0,
}


def inquire_queue_manager_status(request: Request) -> Responses:
    """Run MQCMD_INQUIRE_Q_MGR_STATUS: say how full the file system is; there is no log."""
    optional = {cf.MQIACF_Q_MGR_STATUS_ATTRS: cf.MQCFT_INTEGER_LIST}
    arguments = check(request.parameters, {}, optional)
    asked = arguments.selectors(cf.MQIACF_Q_MGR_STATUS_ATTRS, STATUS_LENGTHS)
    total, used, _ = shutil.disk_usage(request.connection.directory)
    values: dict[int, Value | tuple[int, ...]] = {
        mq.MQCA_Q_MGR_NAME: request.catalogue.name,
        cf.MQIACF_Q_MGR_STATUS: cf.MQQMSTA_RUNNING,
        cf.MQIACF_Q_MGR_FS_IN_USE: round(100 * used / total),
        cf.MQIACF_Q_MGR_FS_SIZE: min(total >> 20, 2**31 - 1),
    }
    always = {mq.MQCA_Q_MGR_NAME, cf.MQIACF_Q_MGR_STATUS}
    chosen = [each for each in values if each in asked | always]
    return [attribute_parameters(values, chosen, STATUS_LENGTHS)]


def inquire_cluster_queue_manager(request: Request) -> Responses:
    """Run MQCMD_INQUIRE_CLUSTER_Q_MGR: no queue manager is in a cluster with this one."""
    check(request.parameters, {mq.MQCA_CLUSTER_Q_MGR_NAME: cf.MQCFT_STRING}, {})
    raise PcfError.about("MQRC_UNKNOWN_OBJECT_NAME", mq.MQCA_CLUSTER_Q_MGR_NAME)


def _pattern(arguments: Arguments) -> str:
    """Return the queue's name, which may be generic."""
    name = arguments.text(mq.MQCA_Q_NAME)
    if name != "*":
        check_name(name.removesuffix("*"))
    return name


def _type(arguments: Arguments) -> int:
    wanted = int(arguments.values.get(mq.MQIA_Q_TYPE, mq.MQQT_ALL))
    if wanted not in {mq.MQQT_ALL, *KIND_OF}:
        raise PcfError.about("MQRCCF_Q_TYPE_ERROR", mq.MQIA_Q_TYPE)
    return wanted


def filtered_by(arguments: Arguments) -> frozenset[int]:
    """Return the attribute that the filter tests, which a response always has."""
    return frozenset({arguments.filter.identifier} if arguments.filter else ())


def selected_queues(
    request: Request, arguments: Arguments, *, is_status: bool = False
) -> Iterator[Definition]:
    """Yield the queues that match the name and the type, and that the user may display.

    Only local queues have a status: the full name of another queue is an error.
    """
    pattern, wanted = _pattern(arguments), _type(arguments)
    is_generic = pattern.endswith("*")
    named = [one for one in request.catalogue.by_name.values() if matches_name(one.name, pattern)]
    if not named:
        raise PcfError.about("MQRC_UNKNOWN_OBJECT_NAME", mq.MQCA_Q_NAME)
    for queue in named:
        if is_status and queue.type != mq.MQQT_LOCAL:
            if not is_generic:
                raise PcfError.about("MQRCCF_Q_WRONG_TYPE", mq.MQCA_Q_NAME)
        elif wanted in {mq.MQQT_ALL, queue.type} and is_shown(
            request, authority.QUEUE, queue.name, is_generic=is_generic
        ):
            yield queue


def is_shown(request: Request, kind: str, name: str, *, is_generic: bool) -> bool:
    """Return whether the user may display an object; one of a generic name is left out if not."""
    try:
        request.check_authority(kind, name, "DSP")
    except CallFailedError:
        if is_generic:
            return False
        raise
    return True


def attribute_parameters(
    values: Mapping[int, Value | tuple[int, ...]],
    chosen: Sequence[int],
    lengths: Mapping[int, int],
) -> list[Parameter]:
    """Return attributes as parameters; text is padded with blanks to its full length."""
    parameters = []
    for selector in chosen:
        value = values[selector]
        if isinstance(value, tuple):
            parameters.append(integers(selector, value))
        elif isinstance(value, int):
            parameters.append(integer(selector, value))
        else:
            data = value.encode("latin-1", "replace").ljust(lengths[selector])
            parameters.append(string(selector, data))
    return parameters


INQUIRING: Mapping[int, Command] = {
    cf.MQCMD_INQUIRE_Q: inquire_queues,
    cf.MQCMD_INQUIRE_Q_NAMES: inquire_queue_names,
    cf.MQCMD_INQUIRE_Q_MGR: inquire_queue_manager,
    cf.MQCMD_INQUIRE_Q_MGR_STATUS: inquire_queue_manager_status,
    cf.MQCMD_INQUIRE_CLUSTER_Q_MGR: inquire_cluster_queue_manager,
}
