"""Recognize queue names that a program generated, so that all of them are one cause.

A program that opens a model queue gives a stem such as ``AMQ.*``, and the queue manager replaces
the asterisk by characters that make the name unique (IBM MQ docs, "DynamicQName (MQCHAR48)"). The
asterisk may be in positions 1 to 33 of 48, and the queue manager writes 16 hexadecimal digits.
Temporary queues of JMS, MQAI and IBM MQ Explorer have such names with other stems.

The rule is conservative. The generated part is at the end of the name, and one of these:

- the last 16 hexadecimal digits of a name that ends in at least 16, all letters among them of one
  case;
- 24 or 32 such digits that a separator precedes, or that are the whole name: an identifier of 12 or
  16 bytes, such as a UUID without separators;
- a UUID with separators, in groups of 8, 4, 4, 4 and 12 digits.

At least one of the digits is a decimal one, so that no word is taken for a number. Every other name
stays as it is: ``ORDERS.1`` and ``ORDERS.2`` are two queues.
"""

from __future__ import annotations

import re
from typing import Final

GENERATED: Final = "*"
"""Stands for the generated part of a name; IBM allows no asterisk in the name of a queue."""

_SEPARATOR: Final = r"[./_%-]"


def _ends_in(digit: str) -> str:
    uuid = r"{d}{{8}}(?P<{g}>[._-]){d}{{4}}(?P={g}){d}{{4}}(?P={g}){d}{{4}}(?P={g}){d}{{12}}"
    group = "upper" if "A" in digit else "lower"
    separated = uuid.format(d=digit, g=group)
    return rf"(?:(?:\A|(?<={_SEPARATOR}))(?:{separated}|{digit}{{32}}|{digit}{{24}})|{digit}{{16}})"


_PART: Final = re.compile(rf"(?:{_ends_in('[0-9A-F]')}|{_ends_in('[0-9a-f]')})\Z")


def generalize(name: str) -> str:
    """Return a queue's name with ``*`` for its generated part; another name as it is.

    As for a queue manager, a NUL ends a name, and blanks at its end do not count (IBM MQ docs,
    "ObjectName (MQCHAR48)"). The function is idempotent.

    >>> generalize("AMQ.5F2A6C7E21034B02")
    'AMQ.*'
    >>> generalize("ORDERS.1")
    'ORDERS.1'
    """
    name = name.partition("\0")[0].rstrip(" ")
    found = _PART.search(name)
    if found is None or not any(character in "0123456789" for character in found[0]):
        return name
    return name[: found.start()] + GENERATED


def is_generalized(name: str) -> bool:
    """Whether a name from `generalize` stands for all queues with its stem."""
    return name.endswith(GENERATED)
