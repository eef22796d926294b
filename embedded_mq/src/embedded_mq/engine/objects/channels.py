"""Channels without a network: their definitions, and what START and STOP CHANNEL make of them.

No channel moves messages, and no client connects through one. A started sender channel is RUNNING
while a queue manager to which its transmission queue leads is running in the same directory;
otherwise it is RETRYING, and its retries are not counted. Receiver and server-connection channels
have no instances, thus no status unless they are stopped. IBM MQ docs, "DEFINE CHANNEL", "START
CHANNEL", "STOP CHANNEL", "Channel states".
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.objects import definitions
from embedded_mq.engine.objects.attributes import (
    CHANNEL_ATTRIBUTES,
    MQCHT_RECEIVER,
    MQCHT_SENDER,
    MQCHT_SVRCONN,
    Value,
    defaults,
)
from embedded_mq.engine.objects.queue_objects import CommandRefusedError
from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.pcf import constants as cf
from embedded_mq.storage import lifecycle
from embedded_mq.storage.catalogue import ENDED
from embedded_mq.storage.store import Store

TYPES = {"SDR": MQCHT_SENDER, "RCVR": MQCHT_RECEIVER, "SVRCONN": MQCHT_SVRCONN}
TYPE_WORDS = {number: word for word, number in TYPES.items()}
STATUS_WORDS = {
    cf.MQCHS_RUNNING: "RUNNING",
    cf.MQCHS_RETRYING: "RETRYING",
    cf.MQCHS_STOPPED: "STOPPED",
}
CHANNEL_NAME_LENGTH = 20
_NAME = re.compile(rf"[A-Za-z0-9._/%]{{1,{CHANNEL_NAME_LENGTH}}}")
_INACTIVE, _STARTED, _STOPPED = "", "STARTED", "STOPPED"

_CREATE = """
CREATE TABLE IF NOT EXISTS channel(
    name TEXT PRIMARY KEY,
    type INTEGER NOT NULL,
    attributes TEXT NOT NULL,
    state TEXT NOT NULL,
    start_date TEXT NOT NULL,
    start_time TEXT NOT NULL) WITHOUT ROWID
"""
"""Created when it is needed: queue managers of earlier versions lack it."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One defined channel: `type` is an MQCHT value, `attributes` go by MQSC keyword.

    `start_date` and `start_time` are those of its last start, or blank.
    """

    name: str
    type: int
    attributes: Mapping[str, Value]
    state: str = _INACTIVE
    start_date: str = ""
    start_time: str = ""

    def text(self, keyword: str) -> str:
        """Return a character attribute, "" if this type of channel does not have it."""
        return str(self.attributes.get(keyword, ""))


def check_channel_name(name: str | None) -> str:
    """Return a valid channel name (IBM MQ docs, "Rules for naming IBM MQ objects")."""
    if name is None or not _NAME.fullmatch(name):
        raise CommandRefusedError(
            "MQRCCF_CHANNEL_NAME_ERROR",
            f"{name or ''!r} is not a valid channel name; use 1 to {CHANNEL_NAME_LENGTH} of A-Z a-z"
            " 0-9 . _ / %",
        )
    return name


def load(store: Store) -> dict[str, Channel]:
    """Return the defined channels by name."""
    if store.fetch_value("SELECT 1 FROM sqlite_master WHERE name = 'channel'") is None:
        return {}
    rows = store.execute("SELECT * FROM channel ORDER BY name")
    return {
        name: Channel(
            name, kind, defaults(CHANNEL_ATTRIBUTES[kind]) | json.loads(attributes), *state
        )
        for name, kind, attributes, *state in rows
    }


def find_channel(store: Store, name: str | None, kind: int | None = None) -> Channel:
    """Return the channel with this name, which must have the type if one is given."""
    name = check_channel_name(name)
    channel = load(store).get(name)
    if channel is None:
        raise CommandRefusedError(
            "MQRCCF_CHANNEL_NOT_FOUND",
            f"channel {name} does not exist; DEFINE CHANNEL({name}) CHLTYPE(...) creates it",
        )
    if kind not in {None, channel.type}:
        raise CommandRefusedError(
            "MQRCCF_CHANNEL_TYPE_ERROR",
            f"channel {name} has CHLTYPE({TYPE_WORDS[channel.type]}), not"
            f" CHLTYPE({TYPE_WORDS[kind or 0]})",
        )
    return channel


def define(store: Store, channel: Channel, *, replaces: bool = False) -> None:
    """Define a channel, inside a write transaction; `replaces` allows an existing one."""
    if channel.name in load(store):
        if not replaces:
            raise CommandRefusedError(
                "MQRCCF_CHANNEL_ALREADY_EXISTS",
                f"channel {channel.name} already exists; DEFINE CHANNEL({channel.name}) REPLACE"
                " changes it",
            )
        found = find_channel(store, channel.name, channel.type)
        channel = replace(found, attributes=channel.attributes)
    change(store, channel)


def change(store: Store, channel: Channel) -> None:
    """Write a channel, inside a write transaction.

    A sender channel must name its transmission queue and its partner.
    """
    for keyword in ("CONNAME", "XMITQ") if channel.type == MQCHT_SENDER else ():
        if not channel.text(keyword):
            raise CommandRefusedError(
                "MQRCCF_MISSING_CONN_NAME" if keyword == "CONNAME" else "MQRCCF_PARM_MISSING",
                f"channel {channel.name} has no {keyword}; CHLTYPE(SDR) needs {keyword}(...)",
            )
    store.execute(_CREATE)
    store.execute(
        "INSERT OR REPLACE INTO channel VALUES(?, ?, ?, ?, ?, ?)",
        (
            channel.name,
            channel.type,
            json.dumps(channel.attributes),
            channel.state,
            channel.start_date,
            channel.start_time,
        ),
    )


def delete(store: Store, channel: Channel) -> None:
    """Delete a channel that is not started, inside a write transaction."""
    _check_not_started(channel)
    store.execute("DELETE FROM channel WHERE name = ?", (channel.name,))


def start(store: Store, channel: Channel) -> None:
    """Start a sender channel, or let the partner of another channel start it."""
    _check_not_started(channel)
    if channel.type == MQCHT_SENDER:
        date, time = definitions.date_and_time()
        change(store, replace(channel, state=_STARTED, start_date=date, start_time=time))
    else:
        change(store, replace(channel, state=_INACTIVE))


def stop(store: Store, channel: Channel) -> None:
    """Stop a channel: only START CHANNEL makes it available again."""
    change(store, replace(channel, state=_STOPPED))


def _check_not_started(channel: Channel) -> None:
    if channel.state == _STARTED:
        raise CommandRefusedError(
            "MQRCCF_CHANNEL_IN_USE",
            f"channel {channel.name} is started; STOP CHANNEL({channel.name}) stops it",
        )


def status(connection: Connection, channel: Channel) -> int | None:
    """Return the MQCHS of a channel, None for one that is inactive."""
    if channel.state == _STARTED:
        reaches = any(
            _is_running(connection, name) for name in _partners(connection, channel.text("XMITQ"))
        )
        return cf.MQCHS_RUNNING if reaches else cf.MQCHS_RETRYING
    return cf.MQCHS_STOPPED if channel.state == _STOPPED else None


def _partners(connection: Connection, transmission_queue: str) -> Iterator[str]:
    """Yield the queue managers whose messages a transmission queue holds, by all definitions."""
    queues = connection.store.catalogue().by_name
    queue = queues.get(transmission_queue)
    if queue is None or not queue.is_transmission_queue or queue.number("GET"):
        return
    yield transmission_queue
    for other in queues.values():
        if other.type == mq.MQQT_REMOTE and other.text("XMITQ") == transmission_queue:
            yield other.text("RQMNAME")


def _is_running(connection: Connection, name: str) -> bool:
    try:
        return lifecycle.status(name, connection.directory.parent) != ENDED
    except EmbeddedQueueManagerError:
        return False
