"""The options of a snapshot, from a handler's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self

from mqdlq.handlers import Handler


@dataclass(frozen=True, slots=True)
class PayloadKey:
    """A key for AES-GCM (16, 24 or 32 bytes) and its name."""

    key_id: str
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """The payload that a snapshot captures, and when every message gets a full row again.

    `payload` is "none", "head: N" (N bytes of each body) or "full"; `key` encrypts it, None for no
    encryption. Every message gets a full row if the last such snapshot is `full_every` old, or if
    `rescan` requests it. With `stream`, the snapshot is checked by the stream queue;
    `statistics` is the queue with statistics messages, "" for no check by them.
    """

    payload: str = "none"
    key: PayloadKey | None = None
    full_every: timedelta = timedelta(days=1)
    rescan: bool = False
    stream: bool = False
    statistics: str = ""

    @classmethod
    def from_handler(
        cls, handler: Handler, *, rescan: bool = False, key: PayloadKey | None = None
    ) -> Self:
        """Return the options of a handler's configuration."""
        evidence = handler.evidence
        return cls(
            payload=handler.payload,
            key=key,
            full_every=handler.full_snapshot_every,
            rescan=rescan,
            stream=evidence.stream,
            statistics=evidence.statistics or "",
        )

    @property
    def max_captured_bytes(self) -> int | None:
        """How many bytes of each payload are captured at most; None means all."""
        if self.payload == "full":
            return None
        return int(self.payload.removeprefix("head:")) if self.payload != "none" else 0
