"""Pack and unpack the structures of the MQI, whose fields have IBM's names in snake case.

Layouts are those of a 64-bit platform with 4-byte MQLONG (IBM MQ docs, "Data types used in the
MQI"). Both clients always pass the newest layout; the Version field says which fields are used.

`embedded_mq.structures` is a symbolic link to this package. Its modules import one another
relatively, since their absolute names differ between the two.
"""

from __future__ import annotations

from .headers import Field, Kind, Structure
from .packed import (
    DEFAULTS_OF_VERSION_2,
    MQCMHO,
    MQDLH,
    MQDMPO,
    MQGMO,
    MQIMPO,
    MQMD,
    MQMD_LENGTH_1,
    MQMDE,
    MQOD,
    MQPD,
    MQPMO,
    MQRFH,
    MQRFH2,
    MQSMPO,
    MQXQH,
    Packed,
    blank_padded,
    normalised,
    object_name,
    text,
)
