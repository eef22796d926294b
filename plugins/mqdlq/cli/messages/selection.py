"""Choose messages of a source by number, message_key or MsgId."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mqdlq.cli.messages.sources import Message
from mqdlq.errors import MqDlqError
from mqdlq.ledger import ambiguous


class SelectionError(MqDlqError, ValueError):
    """A message that was asked for is not there."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The messages to choose; none of the three means every message.

    `keys` are hexadecimal digits of message_key, of which the first few are enough; `msg_ids` are
    the 48 digits of a MsgId.
    """

    numbers: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()
    msg_ids: tuple[str, ...] = ()

    def of(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield the chosen messages in the order of the source.

        Raises SelectionError, after the last message, for what is not there, and MessageKeyError,
        before any message, for a prefix that fits several keys.
        """
        if not (self.numbers or self.keys or self.msg_ids):
            yield from messages
            return
        chosen = [message for message in messages if self._fits(message)]
        for prefix in self.keys:
            found = sorted({message.key for message in chosen if message.key.startswith(prefix)})
            if len(found) > 1:
                raise ambiguous(prefix, found, len(found))
        yield from chosen
        missing = [
            *(f"number {n}" for n in self.numbers if n not in {m.number for m in chosen}),
            *(f"key {k}" for k in self.keys if not any(m.key.startswith(k) for m in chosen)),
            *(f"MsgId {i}" for i in self.msg_ids if i not in {m.msg_id for m in chosen}),
        ]
        if missing:
            raise SelectionError("MQDLQ-903", f"no message here has {' or '.join(missing)}")

    def _fits(self, message: Message) -> bool:
        return (
            message.number in self.numbers
            or any(message.key.startswith(prefix) for prefix in self.keys)
            or message.msg_id in self.msg_ids
        )
