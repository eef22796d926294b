"""Change the trace properties of a message that is got.

IBM MQ for z/OS does this from 9.4.3 on with OTELTRAC(ON); here a fault requests it (see `lies`).
The value of `traceparent` follows the W3C recommendation "Trace Context": version, trace id, parent
id and flags.
"""

import secrets
from dataclasses import replace

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.messages.property_values import Property, pack_properties, unpack_properties
from embedded_mq.engine.unit_of_work import Message

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"


def with_new_trace(found: Message) -> Message:
    """Return a message with new trace properties."""
    others = [
        held
        for held in unpack_properties(found.properties)
        if held.name not in {TRACEPARENT, TRACESTATE}
    ]
    values = {
        TRACEPARENT: f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01",
        TRACESTATE: "mq=" + secrets.token_hex(4),
    }
    own = [Property(name, mq.MQTYPE_STRING, value) for name, value in values.items()]
    return replace(found, properties=pack_properties([*others, *own]))
