"""Message properties and reports."""

from __future__ import annotations

from typing import Final

from mqdlq.mqi.browse import browse_with_properties
from mqdlq.mqi.unit_of_work import Delivery, Syncpoint
from mqdlq.tools.certify.bench import (
    DEAD_LETTER,
    SOURCE,
    STATE,
    TARGET,
    Application,
    Bench,
    ScratchQueue,
    behaviour,
    dead_letter_header,
    expect,
)

PROPERTIES: Final = {b"colour": "red", b"shop.size": 3}
UNDELIVERABLE: Final = ("MQRO_PASS_DISCARD_AND_EXPIRY", "MQRO_DISCARD_MSG")
"""A report that cannot be delivered is discarded, and does not become a dead letter."""


def _put_with_properties(app: Application) -> None:
    client = app.queue_manager.client
    handle = client.module.MessageHandle(app.queue_manager.handle)
    for name, value in PROPERTIES.items():
        if isinstance(value, str):
            handle.properties.set(name, value)
        else:
            handle.properties.set(name, value, client.CMQC.MQTYPE_INT32, 4)
    pmo = client.packed.PMO()
    pmo.Options, pmo.NewMsgHandle = client.CMQC.MQPMO_NO_SYNCPOINT, handle.msg_handle
    opened = app.open(SOURCE, "OUTPUT")
    with client.translating_errors("MQPUT", "queue"):
        opened.put(b"body", app.descriptor(Format=b"MQSTR   "), pmo)


def _properties(app: Application, queue: ScratchQueue) -> list[str]:
    """Return the names of the properties that the message on a queue has with their values."""
    cursor = app.source_cursor(queue)
    app.first(cursor)
    found = []
    for name, value in PROPERTIES.items():
        try:
            if cursor.handle.properties.get(name) == value:
                found.append(name.decode())
        except app.queue_manager.client.module.MQMIError:
            continue
    return found


@behaviour(
    "moved messages lose their properties; JMS programs do not recognise them: do not let the"
    " handler act on messages of JMS programs"
)
def message_properties_move_with_a_message(bench: Bench) -> None:
    """A message that is moved keeps its message properties.

    IBM MQ docs, "MQGMO options": MQGMO_PROPERTIES_IN_HANDLE; "Action (MQPMO)": MQACTP_FORWARD.
    """
    _put_with_properties(bench.app)
    expect("properties before", _names(), _properties(bench.app, SOURCE))
    bench.app.move_first(SOURCE)

    expect("properties after", _names(), _properties(bench.app, TARGET))


@behaviour("restored messages lack the properties of the discarded ones")
def message_properties_can_be_archived_and_restored(bench: Bench) -> None:
    """A message put with its properties in an MQRFH2 has the same properties again.

    IBM MQ docs, "MQGMO options": MQGMO_PROPERTIES_FORCE_MQRFH2; "MQRFH2 - Rules and formatting
    header 2".
    """
    app = bench.app
    _put_with_properties(app)
    cursor = app.source_cursor(SOURCE)
    message = bench.app.first(cursor)
    descriptor, body = browse_with_properties(cursor, message.total_length)
    with Syncpoint(app.queue_manager) as unit:
        unit.put_with_original_context(descriptor, Delivery(TARGET.name(app.prefix), "", body))
        unit.commit()

    expect("properties", _names(), _properties(app, TARGET))


def _names() -> list[str]:
    return [name.decode() for name in PROPERTIES]


@behaviour(
    "a move of a dead letter that asks for reports sends them too early; units of work have room"
    " for them, so that nothing is lost"
)
def a_dead_letter_causes_no_report(bench: Bench) -> None:
    """A message with Format MQDEAD causes no report on arrival or delivery.

    IBM MQ docs, "Report (MQMD)": MQRO_COA, MQRO_COD.
    """
    app = bench.app
    asked = {
        "Report": sum(map(app.number, ("MQRO_COA", "MQRO_COD", *UNDELIVERABLE))),
        "ReplyToQ": STATE.name(app.prefix).encode(),
    }
    app.put(SOURCE, dead_letter_header(), **DEAD_LETTER, **asked)
    app.get_all(SOURCE)

    expect("reports", 0, bench.app.depth(STATE))


@behaviour(
    "a failed put sends reports on messages that stay on the dead-letter queue: their senders take"
    " them for delivered"
)
def a_report_belongs_to_the_unit_of_work(bench: Bench) -> None:
    """A report on delivery is sent if the get is committed, and not if it is backed out.

    IBM MQ docs, "Report (MQMD)": MQRO_COD.
    """
    app = bench.app
    app.put(
        SOURCE,
        1,
        Report=sum(map(app.number, ("MQRO_COD", *UNDELIVERABLE))),
        ReplyToQ=STATE.name(app.prefix).encode(),
    )
    opened = app.open(SOURCE, "INPUT_SHARED")
    app.get(opened, "SYNCPOINT")
    app.back_out()
    expect("reports after MQBACK", 0, app.depth(STATE))
    app.get(opened, "SYNCPOINT")
    app.commit()
    expect("reports after MQCMIT", 1, app.depth(STATE))


@behaviour("a put that fails because of the target's stream queue is not explained in the report")
def stream_queues_can_be_inquired(bench: Bench) -> None:
    """MQINQ returns the stream queue of a queue and its quality of service.

    IBM MQ docs, "Configuring streaming queues".
    """
    name = SOURCE.name(bench.app.prefix)
    selectors = map(bench.app.number, ("MQCA_STREAM_QUEUE_NAME", "MQIA_STREAM_QUEUE_QOS"))
    found = bench.app.queue_manager.inquire_attributes(name, *selectors)
    expect("attributes", 2, len(found))
