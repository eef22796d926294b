"""The errors of the functions that create and administer queue managers; MQI calls have none."""

from __future__ import annotations


class EmbeddedQueueManagerError(Exception):
    """An embedded queue manager cannot be created, found, used or put below a client library."""


class MqscError(EmbeddedQueueManagerError, ValueError):
    """MQSC commands that cannot be carried out; none of them has been."""
