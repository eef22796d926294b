"""The options of a snapshot, from a handler's configuration."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Self

from mqdlq.errors import ConnectionSettingsError
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


# Read the keys that encrypt captured payload from a connection's password and extra.
#
# The password is the key, 16, 24 or 32 bytes in Base64. The extra holds its name (`key_id`) and may
# hold earlier keys by their names (`old_keys`), so that older snapshots stay readable.

_LENGTHS: Final = (16, 24, 32)


def read_current_key(conn_id: str, password: str | None, extra: Mapping[str, Any]) -> PayloadKey:
    """Return the key that encrypts now; raises ConnectionSettingsError, which never shows a key."""
    key_id = extra.get("key_id")
    if not key_id:
        raise ConnectionSettingsError(
            "MQDLQ-122",
            f'connection {conn_id!r} does not name its key; add an extra such as {{"key_id":'
            ' "2026-11"}',
        )
    return PayloadKey(str(key_id), _decode_key(conn_id, "its password", password))


def read_all_keys(conn_id: str, password: str | None, extra: Mapping[str, Any]) -> dict[str, bytes]:
    """Return every key of the connection by its name: the current one and the old ones."""
    old: Mapping[str, str] = extra.get("old_keys") or {}
    found = {name: _decode_key(conn_id, f"old key {name!r}", text) for name, text in old.items()}
    present = read_current_key(conn_id, password, extra)
    return {**found, present.key_id: present.key}


def _decode_key(conn_id: str, what: str, text: str | None) -> bytes:
    try:
        key = base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) not in _LENGTHS:
        raise ConnectionSettingsError(
            "MQDLQ-123",
            f"connection {conn_id!r}: {what} is not a key; expected 16, 24 or 32 bytes in Base64,"
            " such as `openssl rand -base64 32` prints",
        )
    return key
