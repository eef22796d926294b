"""Run DEFINE, ALTER, DELETE, DISPLAY, START and STOP CHANNEL, and DISPLAY CHSTATUS.

The functions run inside a write transaction. IBM MQ docs, "MQSC commands reference".
"""

from dataclasses import replace

from embedded_mq.engine.connection import Connection
from embedded_mq.engine.objects import channels
from embedded_mq.engine.objects.attributes import (
    CHANNEL_ATTRIBUTES,
    IGNORED_CHANNEL_KEYWORDS,
    defaults,
)
from embedded_mq.engine.objects.channels import Channel
from embedded_mq.engine.objects.queue_objects import matches_name
from embedded_mq.mqsc.display import shown, words_of
from embedded_mq.mqsc.queues import done
from embedded_mq.mqsc.syntax import Command, ProblemError, split_parameters
from embedded_mq.mqsc.values import CheckedAttributes, check_attributes


def define(connection: Connection, command: Command) -> list[str]:
    """Define or replace a channel."""
    found, rest = split_parameters(command, "REPLACE", "NOREPLACE")
    kind, change = _given(command.with_parameters(rest))
    name = channels.check_channel_name(command.name)
    channel = Channel(name, kind, defaults(CHANNEL_ATTRIBUTES[kind]) | change.values)
    channels.define(connection.store, channel, replaces="REPLACE" in found)
    return done("defined", command, change)


def alter(connection: Connection, command: Command) -> list[str]:
    """Alter a channel; other attributes keep their values."""
    kind, change = _given(command)
    channel = channels.find_channel(connection.store, command.name, kind)
    channels.change(
        connection.store, replace(channel, attributes={**channel.attributes, **change.values})
    )
    return done("altered", command, change)


def delete(connection: Connection, command: Command) -> list[str]:
    """Delete a channel."""
    channels.delete(connection.store, _named(connection, command))
    return done("deleted", command, CheckedAttributes())


def start(connection: Connection, command: Command) -> list[str]:
    """Start a channel."""
    channels.start(connection.store, _named(connection, command))
    return done("started", command, CheckedAttributes())


def stop(connection: Connection, command: Command) -> list[str]:
    """Stop a channel."""
    channels.stop(connection.store, _named(connection, command))
    return done("stopped", command, CheckedAttributes())


def display(connection: Connection, command: Command) -> list[str]:
    """Return a line for each channel that the command names."""
    found, rest = split_parameters(command, "CHLTYPE")
    wanted = _kind(command, found["CHLTYPE"]) if found.get("CHLTYPE") else None
    lines = [
        " ".join(
            [
                f"CHANNEL({channel.name})",
                f"CHLTYPE({channels.TYPE_WORDS[channel.type]})",
                *shown(
                    command.with_parameters(rest),
                    words_of(channel.attributes, CHANNEL_ATTRIBUTES[channel.type]),
                    {word for known in CHANNEL_ATTRIBUTES.values() for word in known},
                ),
            ]
        )
        for channel in channels.load(connection.store).values()
        if matches_name(channel.name, command.name or "") and wanted in {None, channel.type}
    ]
    if not lines:
        raise ProblemError(command.line, f"channel {command.name or ''} does not exist")
    return lines


def display_status(connection: Connection, command: Command) -> list[str]:
    """Return a line for each channel that the command names and that is not inactive."""
    lines = []
    for channel in channels.load(connection.store).values():
        status = channels.status(connection, channel)
        if matches_name(channel.name, command.name or "") and status is not None:
            words = {
                "CHLTYPE": channels.TYPE_WORDS[channel.type],
                "CONNAME": channel.text("CONNAME"),
                "STATUS": channels.STATUS_WORDS[status],
                "XMITQ": channel.text("XMITQ"),
                "CHSTADA": channel.start_date,
                "CHSTATI": channel.start_time,
            }
            attributes = shown(command, words, words.keys())
            lines.append(" ".join([f"CHANNEL({channel.name})", *attributes]))
    if not lines:
        raise ProblemError(command.line, f"channel {command.name or ''} has no status")
    return lines


def _named(connection: Connection, command: Command) -> Channel:
    if command.parameters:
        raise ProblemError(
            command.line,
            f"{command.verb} takes no parameters; use {command.verb} CHANNEL(name)",
        )
    return channels.find_channel(connection.store, command.name)


def _given(command: Command) -> tuple[int, CheckedAttributes]:
    """Return the type of a channel and the attributes that the command sets."""
    found, rest = split_parameters(command, "CHLTYPE")
    kind = _kind(command, found.get("CHLTYPE"))
    return kind, check_attributes(
        rest, CHANNEL_ATTRIBUTES[kind], IGNORED_CHANNEL_KEYWORDS, f"CHANNEL({command.name})"
    )


def _kind(command: Command, word: str | None) -> int:
    if word not in channels.TYPES:
        raise ProblemError(
            command.line,
            f"{command.verb} CHANNEL needs CHLTYPE, one of {' '.join(channels.TYPES)}",
        )
    return channels.TYPES[word]
