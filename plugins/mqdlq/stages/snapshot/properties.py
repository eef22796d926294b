"""Compare the message properties of browsed messages with the conditions of rules.

A property is in the message handle of the browse, or in an MQRFH2 of the body that the queue
manager has left there. Its value is compared at once and never stored: a snapshot has the
conditions that a message meets, and the conditions that it does not meet.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from mqdlq.headers import PREFIX_LENGTH, UnreadablePropertyError, read_rules_headers
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.rules import RulesTable

PROPERTY_PREFIX_LENGTH: Final = 32 << 10
"""How many bytes of a body are browsed if rules compare properties."""
PROPERTY_COLUMNS: Final = ("properties_met", "properties_unmet")


class PropertyMatches:
    """The conditions on properties of a table, for the messages of one browse.

    A table without such conditions costs nothing: no property is read, and the columns stay null.
    """

    def __init__(self, table: RulesTable | None) -> None:
        self._conditions = table.property_conditions if table else ()
        self.names = tuple(sorted({condition.name for condition in self._conditions}))

    def browsed_length(self, otherwise: int = PREFIX_LENGTH) -> int:
        """Return how many bytes of a body to browse, so that an MQRFH2 is probably complete."""
        return max(otherwise, PROPERTY_PREFIX_LENGTH) if self.names else otherwise

    def compare(
        self, message: BrowsedMessage, *, is_complete: bool = True
    ) -> dict[str, list[str] | None]:
        """Return the two columns of one message.

        Unless the message `is_complete`, a property that is not in its body is unknown, because the
        message may have had it.
        """
        if not self.names:
            return dict.fromkeys(PROPERTY_COLUMNS)
        values = dict(message.properties)
        others = [name for name in self.names if name not in values]
        values |= _read_from_body(message, others, is_complete=is_complete)
        met: list[str] = []
        unmet: list[str] = []
        for condition in self._conditions:
            if condition.name not in values:
                unmet.append(str(condition))
            elif (value := values[condition.name]) is not None:
                (met if condition.is_met_by(value) else unmet).append(str(condition))
        return dict(zip(PROPERTY_COLUMNS, (met, unmet), strict=True))


def _read_from_body(
    message: BrowsedMessage, names: Sequence[str], *, is_complete: bool
) -> Mapping[str, str | None]:
    """Return properties in the MQRFH2 headers of a body; None is a value that cannot be read."""
    if not names:
        return {}
    headers = read_rules_headers(*message[:3])
    if headers is None:
        return dict.fromkeys(names)
    values: dict[str, str | None] = {}
    for name in names:
        try:
            found = [header.find_property(name.split(".")) for header in headers]
        except UnreadablePropertyError:
            values[name] = None
            continue
        value = next((text for text in found if text is not None), None)
        if value is not None or not is_complete:
            values[name] = value
    return values
