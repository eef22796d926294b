"""Make rows of pasted messages, with what rules compare of them."""

from datetime import UTC, datetime
from typing import Any, Final

from mqdlq.headers import MessageDescriptor, describe, header_row
from mqdlq.model import MessageClass
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.rules.keywords import KEYWORDS
from mqdlq.stages.snapshot.properties import PropertyMatches
from mqdlq.tools.dumps import PastedMessage


def pasted_row(
    browse_seq: int, message: PastedMessage, matches: PropertyMatches, browsed_at: datetime
) -> dict[str, Any]:
    """Return a message of a dump, with an MQMD, as a row; raises MalformedHeaderError."""
    descriptor = message.descriptor or MessageDescriptor()
    shown = BrowsedMessage(descriptor.encode(), message.body, message.total_length)
    row = header_row(
        browse_seq, shown.descriptor, shown.prefix, shown.total_length, browsed_at=browsed_at
    )
    # Whether the queue cut a message depends on its MAXMSGL, of which a dump says nothing.
    return row | {"maybe_truncated": None} | matches.compare(shown, is_complete=False)


def pasted_values(
    browse_seq: int, message: PastedMessage, matches: PropertyMatches
) -> tuple[MessageClass, dict[str, Any]]:
    """Return a pasted message's class and what rules compare of it, without times of a browse.

    Raises MalformedHeaderError.
    """
    if message.descriptor is None:
        return _values_without_md(message)
    row = pasted_row(browse_seq, message, matches, datetime.min.replace(tzinfo=UTC))
    return MessageClass(row["class"]), row | {"browsed_at": None, "expires_at": None}


_OF_MQDLH: Final = [
    keyword.column for keyword in KEYWORDS.values() if keyword.column.startswith("dlh_")
]


def _values_without_md(message: PastedMessage) -> tuple[MessageClass, dict[str, Any]]:
    """Return the class of a pasted message without an MQMD, and what rules compare of its MQDLH."""
    seen = describe(
        message.body,
        message.total_length,
        encoding=546,
        ccsid=819,
        format="MQDEAD",
        msg_flags=0,
    )
    if seen.dlh is None:
        return seen.cls, {}
    return seen.cls, {name: getattr(seen.dlh, name.removeprefix("dlh_")) for name in _OF_MQDLH}
