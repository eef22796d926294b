"""An Airflow connection in, the keys that encrypt captured payload out.

The connection's password is the key, 16, 24 or 32 bytes in Base64; its extra names it (`key_id`)
and may hold earlier keys by their names (`old_keys`), so that older snapshots can still be read.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from airflow.sdk import BaseHook, Connection

from mqdlq.errors import ConnectionSettingsError
from mqdlq.snapshot.options import PayloadKey

_LENGTHS: Final = (16, 24, 32)


def payload_key(conn_id: str) -> PayloadKey:
    """Return the key that encrypts now; raises ConnectionSettingsError, never showing a key."""
    connection = BaseHook.get_connection(conn_id)
    key_id = connection.extra_dejson.get("key_id")
    if not key_id:
        raise ConnectionSettingsError(
            f"connection {conn_id!r} does not name its key; expected an extra such as"
            ' {"key_id": "2026-11"}'
        )
    return PayloadKey(str(key_id), _decoded(conn_id, "its password", connection.password))


def payload_keys(conn_id: str) -> dict[str, bytes]:
    """Return every key the connection knows, by name: the present one and the old ones."""
    connection: Connection = BaseHook.get_connection(conn_id)
    old: dict[str, Any] = connection.extra_dejson.get("old_keys") or {}
    found = {name: _decoded(conn_id, f"old key {name!r}", text) for name, text in old.items()}
    present = payload_key(conn_id)
    return {**found, present.key_id: present.key}


def _decoded(conn_id: str, what: str, text: str | None) -> bytes:
    try:
        key = base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) not in _LENGTHS:
        raise ConnectionSettingsError(
            f"connection {conn_id!r}: {what} is no key; expected 16, 24 or 32 bytes in Base64,"
            " such as `openssl rand -base64 32` prints"
        )
    return key
