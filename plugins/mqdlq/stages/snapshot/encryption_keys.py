"""A connection's password and extra in, the keys that encrypt captured payload out.

The password is the key, 16, 24 or 32 bytes in Base64; the extra names it (`key_id`) and may hold
earlier keys by their names (`old_keys`), so that older snapshots can still be read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from mqdlq.errors import ConnectionSettingsError
from mqdlq.stages.snapshot.snapshot_options import PayloadKey

_LENGTHS: Final = (16, 24, 32)


def key_of(conn_id: str, password: str | None, extra: Mapping[str, Any]) -> PayloadKey:
    """Return the key that encrypts now; raises ConnectionSettingsError, never showing a key."""
    key_id = extra.get("key_id")
    if not key_id:
        raise ConnectionSettingsError(
            "MQDLQ-122",
            f'connection {conn_id!r} does not name its key; add an extra such as {{"key_id":'
            ' "2026-11"}',
        )
    return PayloadKey(str(key_id), _decoded(conn_id, "its password", password))


def keys_of(conn_id: str, password: str | None, extra: Mapping[str, Any]) -> dict[str, bytes]:
    """Return every key the connection knows, by name: the present one and the old ones."""
    old: Mapping[str, str] = extra.get("old_keys") or {}
    found = {name: _decoded(conn_id, f"old key {name!r}", text) for name, text in old.items()}
    present = key_of(conn_id, password, extra)
    return {**found, present.key_id: present.key}


def _decoded(conn_id: str, what: str, text: str | None) -> bytes:
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
