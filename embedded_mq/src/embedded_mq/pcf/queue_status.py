"""Run the PCF command that inquires the status of queues, and of the handles that have them open.

IBM MQ docs, "Inquire Queue Status", "Inquire Queue Status (Response)".
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name
from embedded_mq.engine.connection import USER_LENGTH
from embedded_mq.engine.messages import monitoring
from embedded_mq.engine.objects import definitions
from embedded_mq.engine.objects.attributes import Value
from embedded_mq.engine.objects.channels import CHANNEL_NAME_LENGTH
from embedded_mq.engine.objects.inquiring import NAME_LENGTH, queue_values
from embedded_mq.pcf import constants as cf
from embedded_mq.pcf.arguments import check, matches_filter
from embedded_mq.pcf.channels import CHANNEL_LENGTHS
from embedded_mq.pcf.commands import Command, Request, Responses
from embedded_mq.pcf.inquiries import (
    DATE_LENGTH,
    NAME,
    TIME_LENGTH,
    attribute_parameters,
    filtered_by,
    selected_queues,
)
from embedded_mq.pcf.messages import PcfError, integer, string
from embedded_mq.storage.catalogue import Definition
from embedded_mq.storage.store import Store

Values = dict[int, Value | tuple[int, ...]]

# With MONQ(OFF), times are blank, and the age is MQMON_NOT_AVAILABLE as QTIME always is.
STATUS_LENGTHS: Mapping[int, int] = {
    mq.MQIA_CURRENT_Q_DEPTH: 0,
    mq.MQIA_OPEN_INPUT_COUNT: 0,
    mq.MQIA_OPEN_OUTPUT_COUNT: 0,
    mq.MQIA_MONITORING_Q: 0,
    cf.MQIACF_UNCOMMITTED_MSGS: 0,
    cf.MQIACF_OLDEST_MSG_AGE: 0,
    cf.MQIACF_Q_TIME_INDICATOR: 0,
    cf.MQCACF_LAST_GET_DATE: DATE_LENGTH,
    cf.MQCACF_LAST_GET_TIME: TIME_LENGTH,
    cf.MQCACF_LAST_PUT_DATE: DATE_LENGTH,
    cf.MQCACF_LAST_PUT_TIME: TIME_LENGTH,
}
HANDLE_LENGTHS: Mapping[int, int] = {
    cf.MQCACF_APPL_TAG: 28,
    mq.MQIA_APPL_TYPE: 0,
    cf.MQCACF_USER_IDENTIFIER: USER_LENGTH,
    cf.MQIACF_PROCESS_ID: 0,
    cf.MQIACF_HANDLE_STATE: 0,
    cf.MQIACF_OPEN_OPTIONS: 0,
    cf.MQIACF_OPEN_INPUT_TYPE: 0,
    cf.MQIACF_OPEN_OUTPUT: 0,
    cf.MQIACF_OPEN_BROWSE: 0,
    cf.MQIACF_OPEN_INQUIRE: 0,
    cf.MQIACF_OPEN_SET: 0,
    cf.MQCACH_CHANNEL_NAME: CHANNEL_NAME_LENGTH,
    cf.MQCACH_CONNECTION_NAME: CHANNEL_LENGTHS[cf.MQCACH_CONNECTION_NAME],
}
_OPEN_OPTIONS = {
    cf.MQIACF_OPEN_OUTPUT: mq.MQOO_OUTPUT,
    cf.MQIACF_OPEN_BROWSE: mq.MQOO_BROWSE,
    cf.MQIACF_OPEN_INQUIRE: mq.MQOO_INQUIRE,
    cf.MQIACF_OPEN_SET: mq.MQOO_SET,
}


def inquire_queue_status(request: Request) -> Responses:
    """Run MQCMD_INQUIRE_Q_STATUS: return the status of queues, or of their open handles."""
    kind, known = _kind(request), STATUS_LENGTHS
    values_of: Callable[[Request, Definition], Iterable[Values]] = _status
    if kind == cf.MQIACF_Q_HANDLE:
        known, values_of = HANDLE_LENGTHS, _handles
    known = {mq.MQCA_Q_NAME: NAME_LENGTH, **known}
    optional = {
        cf.MQIACF_Q_STATUS_TYPE: cf.MQCFT_INTEGER,
        cf.MQIACF_Q_STATUS_ATTRS: cf.MQCFT_INTEGER_LIST,
    }
    arguments = check(request.parameters, NAME, optional, known)
    asked = arguments.selectors(cf.MQIACF_Q_STATUS_ATTRS, {**known, cf.MQIACF_Q_STATUS_TYPE: 0})
    chosen = [each for each in known if each in asked | filtered_by(arguments)]
    chosen = [each for each in chosen if each != mq.MQCA_Q_NAME]
    responses = [
        [
            string(mq.MQCA_Q_NAME, object_name(queue.name)),
            integer(cf.MQIACF_Q_STATUS_TYPE, kind),
            *attribute_parameters(values, chosen, known),
        ]
        for queue in selected_queues(request, arguments, is_status=True)
        for values in values_of(request, queue)
        if matches_filter(values, arguments.filter)
    ]
    if not responses:
        raise PcfError.about("MQRCCF_Q_STATUS_NOT_FOUND", mq.MQCA_Q_NAME)
    return responses


def _kind(request: Request) -> int:
    """Return the type of status, on which the allowed parameters depend."""
    found = [
        each.value for each in request.parameters if each.identifier == cf.MQIACF_Q_STATUS_TYPE
    ]
    kind = found[0] if found else cf.MQIACF_Q_STATUS
    if kind not in {cf.MQIACF_Q_STATUS, cf.MQIACF_Q_HANDLE}:
        raise PcfError.about("MQRCCF_PARM_VALUE_ERROR", cf.MQIACF_Q_STATUS_TYPE)
    return cf.MQIACF_Q_HANDLE if kind == cf.MQIACF_Q_HANDLE else cf.MQIACF_Q_STATUS


def _handles(request: Request, queue: Definition) -> Iterator[Values]:
    """Yield the status of each open handle of a queue; none comes through a channel."""
    request.connection.release_orphaned_messages()
    for one in definitions.open_handles(request.connection.store, queue.queue_id):
        opened_for = cf.MQQSO_EXCLUSIVE if one.is_exclusive else cf.MQQSO_SHARED
        yield {
            mq.MQCA_Q_NAME: queue.name,
            cf.MQCACF_APPL_TAG: one.application,
            mq.MQIA_APPL_TYPE: mq.MQAT_USER,
            cf.MQCACF_USER_IDENTIFIER: one.user,
            cf.MQIACF_PROCESS_ID: one.pid,
            cf.MQIACF_HANDLE_STATE: cf.MQHSTATE_INACTIVE,
            cf.MQIACF_OPEN_OPTIONS: one.options,
            cf.MQIACF_OPEN_INPUT_TYPE: opened_for if one.is_input else cf.MQQSO_NO,
            **{
                selector: cf.MQQSO_YES if one.options & option else cf.MQQSO_NO
                for selector, option in _OPEN_OPTIONS.items()
            },
            cf.MQCACH_CHANNEL_NAME: "",
            cf.MQCACH_CONNECTION_NAME: "",
        }


def _status(request: Request, queue: Definition) -> list[Values]:
    connection = request.connection
    counted = (mq.MQIA_CURRENT_Q_DEPTH, mq.MQIA_OPEN_INPUT_COUNT, mq.MQIA_OPEN_OUTPUT_COUNT)
    attributes = queue_values(connection, queue, counted)
    level = request.catalogue.monitoring(queue)
    values: Values = {
        mq.MQCA_Q_NAME: queue.name,
        **{selector: attributes[selector] for selector in counted},
        mq.MQIA_MONITORING_Q: level,
        cf.MQIACF_UNCOMMITTED_MSGS: definitions.count_uncommitted(connection.store, queue.queue_id),
        cf.MQIACF_Q_TIME_INDICATOR: (mq.MQMON_NOT_AVAILABLE, mq.MQMON_NOT_AVAILABLE),
        **_monitored(connection.store, queue.queue_id, is_on=level != mq.MQMON_OFF),
    }
    return [values]


def _monitored(store: Store, queue_id: int, *, is_on: bool) -> dict[int, Value]:
    put, got = monitoring.last_put_and_get(store, queue_id) if is_on else (None, None)
    age = monitoring.oldest_age(store, queue_id, time.time()) if is_on else mq.MQMON_NOT_AVAILABLE
    values: dict[int, Value] = {cf.MQIACF_OLDEST_MSG_AGE: age}
    for at, selectors in (
        (put, (cf.MQCACF_LAST_PUT_DATE, cf.MQCACF_LAST_PUT_TIME)),
        (got, (cf.MQCACF_LAST_GET_DATE, cf.MQCACF_LAST_GET_TIME)),
    ):
        words = ("", "") if at is None else definitions.date_and_time(at)
        values |= zip(selectors, words, strict=True)
    return values


STATUS_COMMANDS: Mapping[int, Command] = {cf.MQCMD_INQUIRE_Q_STATUS: inquire_queue_status}
