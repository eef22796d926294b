"""Run the PCF commands that inquire channels and their status.

IBM MQ docs, "Inquire Channel", "Inquire Channel Status" and the response of each. A generic name
omits channels that the user may not display.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.objects import authority, channels
from embedded_mq.engine.objects.attributes import (
    CHANNEL_ATTRIBUTES,
    MQCHT_ALL,
    MQCHT_SENDER,
    Value,
)
from embedded_mq.engine.objects.channels import CHANNEL_NAME_LENGTH, Channel
from embedded_mq.engine.objects.inquiring import NAME_LENGTH
from embedded_mq.engine.objects.queue_objects import matches_name
from embedded_mq.pcf import constants as cf
from embedded_mq.pcf.arguments import Arguments, check, matches_filter
from embedded_mq.pcf.commands import Command, Request, Responses
from embedded_mq.pcf.inquiries import (
    DATE_LENGTH,
    TIME_LENGTH,
    attribute_parameters,
    filtered_by,
    is_shown,
)
from embedded_mq.pcf.messages import PcfError

_NAME = {cf.MQCACH_CHANNEL_NAME: cf.MQCFT_STRING}
_NAME_AND_TYPE = {cf.MQCACH_CHANNEL_NAME: CHANNEL_NAME_LENGTH, cf.MQIACH_CHANNEL_TYPE: 0}
CHANNEL_LENGTHS: Mapping[int, int] = _NAME_AND_TYPE | {
    attribute.selector: attribute.length
    for attribute in chain.from_iterable(kind.values() for kind in CHANNEL_ATTRIBUTES.values())
}
CHANNEL_STATUS_LENGTHS: Mapping[int, int] = _NAME_AND_TYPE | {
    cf.MQIACH_CHANNEL_STATUS: 0,
    cf.MQCACH_CONNECTION_NAME: CHANNEL_LENGTHS[cf.MQCACH_CONNECTION_NAME],
    cf.MQCACH_XMIT_Q_NAME: NAME_LENGTH,
    cf.MQIACH_CHANNEL_INSTANCE_TYPE: 0,
    cf.MQCACH_CHANNEL_START_DATE: DATE_LENGTH,
    cf.MQCACH_CHANNEL_START_TIME: TIME_LENGTH,
    cf.MQCACH_LAST_MSG_DATE: DATE_LENGTH,
    cf.MQCACH_LAST_MSG_TIME: TIME_LENGTH,
    cf.MQIACH_MSGS: 0,
    cf.MQIACH_SHORT_RETRIES_LEFT: 0,
    cf.MQIACH_LONG_RETRIES_LEFT: 0,
}


def inquire_channels(request: Request) -> Responses:
    """Run MQCMD_INQUIRE_CHANNEL: return the attributes of each channel that matches the name."""
    optional = {
        cf.MQIACH_CHANNEL_TYPE: cf.MQCFT_INTEGER,
        cf.MQIACF_CHANNEL_ATTRS: cf.MQCFT_INTEGER_LIST,
    }
    arguments = check(request.parameters, _NAME, optional, CHANNEL_LENGTHS)
    wanted = arguments.values.get(cf.MQIACH_CHANNEL_TYPE, MQCHT_ALL)
    if wanted not in {MQCHT_ALL, *CHANNEL_ATTRIBUTES}:
        raise PcfError.about("MQRCCF_CHANNEL_TYPE_ERROR", cf.MQIACH_CHANNEL_TYPE)
    found = [
        {
            cf.MQCACH_CHANNEL_NAME: channel.name,
            cf.MQIACH_CHANNEL_TYPE: channel.type,
            **{
                attribute.selector: channel.attributes[keyword]
                for keyword, attribute in CHANNEL_ATTRIBUTES[channel.type].items()
            },
        }
        for channel in _selected(request, arguments)
        if wanted in {MQCHT_ALL, channel.type}
    ]
    asked = arguments.selectors(cf.MQIACF_CHANNEL_ATTRS, CHANNEL_LENGTHS)
    return _described(arguments, asked, found, CHANNEL_LENGTHS, "MQRCCF_CHANNEL_NOT_FOUND")


def inquire_channel_status(request: Request) -> Responses:
    """Run MQCMD_INQUIRE_CHANNEL_STATUS: return the status of channels that are not inactive."""
    optional = {
        cf.MQIACH_CHANNEL_INSTANCE_TYPE: cf.MQCFT_INTEGER,
        cf.MQIACH_CHANNEL_INSTANCE_ATTRS: cf.MQCFT_INTEGER_LIST,
    }
    arguments = check(request.parameters, _NAME, optional, CHANNEL_STATUS_LENGTHS)
    kind = arguments.values.get(cf.MQIACH_CHANNEL_INSTANCE_TYPE, mq.MQOT_CURRENT_CHANNEL)
    if kind != mq.MQOT_CURRENT_CHANNEL:
        raise PcfError.about("MQRCCF_CHL_INST_TYPE_ERROR", cf.MQIACH_CHANNEL_INSTANCE_TYPE)
    asked = arguments.selectors(cf.MQIACH_CHANNEL_INSTANCE_ATTRS, CHANNEL_STATUS_LENGTHS)
    found = []
    for channel in _selected(request, arguments):
        status = channels.status(request.connection, channel)
        if status is not None:
            found.append(_status(channel, status))
    return _described(
        arguments, asked, found, CHANNEL_STATUS_LENGTHS, "MQRCCF_CHL_STATUS_NOT_FOUND"
    )


def _status(channel: Channel, status: int) -> dict[int, Value]:
    values: dict[int, Value] = {
        cf.MQCACH_CHANNEL_NAME: channel.name,
        cf.MQIACH_CHANNEL_TYPE: channel.type,
        cf.MQIACH_CHANNEL_STATUS: status,
        cf.MQCACH_CONNECTION_NAME: channel.text("CONNAME"),
        cf.MQIACH_CHANNEL_INSTANCE_TYPE: mq.MQOT_CURRENT_CHANNEL,
        cf.MQCACH_CHANNEL_START_DATE: channel.start_date,
        cf.MQCACH_CHANNEL_START_TIME: channel.start_time,
    }
    if channel.type == MQCHT_SENDER:
        values |= {
            cf.MQCACH_XMIT_Q_NAME: channel.text("XMITQ"),
            cf.MQCACH_LAST_MSG_DATE: "",
            cf.MQCACH_LAST_MSG_TIME: "",
            cf.MQIACH_MSGS: 0,
            cf.MQIACH_SHORT_RETRIES_LEFT: channel.attributes["SHORTRTY"],
            cf.MQIACH_LONG_RETRIES_LEFT: channel.attributes["LONGRTY"],
        }
    return values


def _selected(request: Request, arguments: Arguments) -> Iterator[Channel]:
    """Yield the channels that match the name, and that the user may display."""
    pattern = arguments.text(cf.MQCACH_CHANNEL_NAME)
    is_generic = pattern.endswith("*")
    if pattern != "*":
        channels.check_channel_name(pattern.removesuffix("*"))
    for channel in channels.load(request.connection.store).values():
        if matches_name(channel.name, pattern) and is_shown(
            request, authority.CHANNEL, channel.name, is_generic=is_generic
        ):
            yield channel


def _described(
    arguments: Arguments,
    asked: frozenset[int],
    found: list[dict[int, Value]],
    lengths: Mapping[int, int],
    none: str,
) -> Responses:
    """Return a response for each object that passes the filter; `none` names the error of none."""
    chosen = asked | filtered_by(arguments) | _NAME_AND_TYPE.keys()
    responses = [
        attribute_parameters(values, [each for each in values if each in chosen], lengths)
        for values in found
        if matches_filter(values, arguments.filter)
    ]
    if not responses:
        raise PcfError.about(none, cf.MQCACH_CHANNEL_NAME)
    return responses


CHANNEL_COMMANDS: Mapping[int, Command] = {
    cf.MQCMD_INQUIRE_CHANNEL: inquire_channels,
    cf.MQCMD_INQUIRE_CHANNEL_STATUS: inquire_channel_status,
}
