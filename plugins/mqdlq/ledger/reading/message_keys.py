"""Message keys, of which the first digits are enough where they are unique."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from sqlalchemy import ColumnElement, func, or_, select

from mqdlq.errors import MqDlqError
from mqdlq.ledger.database import Repository
from mqdlq.ledger.tables.messages import messages
from mqdlq.ledger.tables.runs import runs

KEY_DIGITS: Final = 64
_HEXADECIMAL: Final = frozenset("0123456789abcdef")
_NAMED: Final = 4
"""How many keys an error lists."""


class MessageKeyError(MqDlqError, ValueError):
    """A key is not one, or its first digits are those of several messages or of none."""

    parameter = "message_key"


class MessageKeys(Repository):
    """The keys of the messages that runs have listed."""

    def complete(
        self, given: Iterable[str], handlers: Collection[str] | None = None
    ) -> tuple[str, ...]:
        """Return keys of 64 digits for keys of which the first digits may be given, each once.

        The digits are looked for on the queues of these handlers, or of all. A key of 64 digits is
        returned as it is, in lower case. Raises MessageKeyError if digits are not hexadecimal, or
        begin several keys, or none.
        """
        return tuple(dict.fromkeys(self._complete(digits, handlers) for digits in given))

    def _complete(self, given: str, handlers: Collection[str] | None) -> str:
        digits = given.strip().lower()
        if not digits or len(digits) > KEY_DIGITS or not set(digits) <= _HEXADECIMAL:
            raise MessageKeyError(
                "MQDLQ-271",
                f"{given[: KEY_DIGITS + 6]!r} is not a message_key; expected 64 hexadecimal digits,"
                " or the first of them",
            )
        if len(digits) == KEY_DIGITS:
            return digits
        number, first = self._beginning(digits, handlers)
        if not number:
            of = f" of handler {', '.join(sorted(handlers))}" if handlers else ""
            raise MessageKeyError(
                "MQDLQ-272",
                f"no run{of} has listed a message whose key begins with {digits}; copy the key from"
                " a page or a report, or give all 64 digits",
            )
        if number > 1:
            raise ambiguous(digits, first, number)
        return first[0]

    def _beginning(
        self, digits: str, handlers: Collection[str] | None
    ) -> tuple[int, Sequence[str]]:
        """Return how many keys begin with these digits, and the first of them."""
        queues = select(runs.c.queue_manager, runs.c.queue).distinct()
        if handlers is not None:
            queues = queues.where(runs.c.handler.in_(handlers))
        # One condition for each queue: SQLite does not search its index for pairs.
        here = [
            (messages.c.queue_manager == row["queue_manager"]) & (messages.c.queue == row["queue"])
            for row in self._all(queues)
        ]
        if not here:
            return 0, ()
        fits = or_(*here), *begins(messages.c.message_key, digits)
        number = self._values(select(func.count(messages.c.message_key.distinct())).where(*fits))
        query = select(messages.c.message_key).distinct().where(*fits)
        first = self._values(query.order_by(messages.c.message_key).limit(_NAMED))
        return int(number[0]), [key.hex() for key in first]


def begins(column: ColumnElement[bytes], digits: str) -> list[ColumnElement[bool]]:
    """Return the conditions that a key begins with these hexadecimal digits."""
    first = bytes.fromhex(digits.ljust(KEY_DIGITS, "0"))
    last = bytes.fromhex(digits.ljust(KEY_DIGITS, "f"))
    return [column >= first, column <= last]


def ambiguous(digits: str, first: Sequence[str], number: int) -> MessageKeyError:
    """Return the error for digits with which so many keys begin, of which the first are given."""
    shown = ", ".join(key[: len(digits) + 8] for key in first[:_NAMED])
    more = ", …" if number > _NAMED else ""
    return MessageKeyError(
        "MQDLQ-904",
        f"key {digits} is the beginning of {number:,} messages' keys ({shown}{more}); give more"
        " digits",
    )
