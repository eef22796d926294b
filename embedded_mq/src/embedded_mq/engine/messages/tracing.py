"""Trace properties that the queue manager changes in a message that is received.

IBM MQ for z/OS does so from 9.4.3 on with OTELTRAC(ON); here a fault asks for it (see `faults`).
The value of `traceparent` is that of the W3C recommendation "Trace Context": a version, the trace,
the last part of it, and flags.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.messages.property_values import Property, packed, unpacked
from embedded_mq.engine.unit_of_work import Message

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"


def received(found: Message) -> Message:
    """Return a message as the application gets it, which is part of a trace now."""
    others = [
        held for held in unpacked(found.properties) if held.name not in {TRACEPARENT, TRACESTATE}
    ]
    values = {
        TRACEPARENT: f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01",
        TRACESTATE: "mq=" + secrets.token_hex(4),
    }
    own = [Property(name, mq.MQTYPE_STRING, value) for name, value in values.items()]
    return replace(found, properties=packed([*others, *own]))
