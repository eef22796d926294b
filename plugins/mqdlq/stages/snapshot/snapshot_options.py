"""How a snapshot is to be taken: a handler's configuration in, what the stage needs to know out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self

from mqdlq.handlers import Handler


@dataclass(frozen=True, slots=True)
class PayloadKey:
    """A key for AES-GCM (16, 24 or 32 bytes), and the name by which it is found again."""

    key_id: str
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """What a snapshot holds beside the headers, and when every message gets a full row again.

    `payload` says what is captured of the bodies ("none", "head: N" bytes of each, "full"), `key`
    by what it is encrypted, if it is. Every message has a full row where the last such snapshot
    is `full_every` ago, and where `rescan` asks for it.
    """

    payload: str = "none"
    key: PayloadKey | None = None
    full_every: timedelta = timedelta(days=1)
    rescan: bool = False

    @classmethod
    def of(cls, handler: Handler, *, rescan: bool = False, key: PayloadKey | None = None) -> Self:
        """Return what a handler's configuration says."""
        return cls(handler.payload, key, handler.full_snapshot_every, rescan)

    @property
    def captured(self) -> int | None:
        """How many bytes of each payload are captured at most; None means all."""
        if self.payload == "full":
            return None
        return int(self.payload.removeprefix("head:")) if self.payload != "none" else 0
