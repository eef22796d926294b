"""The errors of functions that create and administer queue managers; MQI calls raise none."""


class EmbeddedQueueManagerError(Exception):
    """An embedded queue manager cannot be created, found, used or installed below a client."""


class MqscError(EmbeddedQueueManagerError, ValueError):
    """MQSC commands are wrong; none of them has taken effect."""
