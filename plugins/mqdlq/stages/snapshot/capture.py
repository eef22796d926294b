"""The options of a snapshot, and the capture of message bodies as far as they request it.

The payload is the part of a body after the MQDLH, or the whole body if there is no MQDLH. An
encrypted payload is a nonce of 12 bytes followed by the output of AES-GCM, which is bound to the
snapshot and the message: it cannot be decrypted anywhere else. The properties that the queue
manager keeps apart from a body are captured and encrypted likewise, as folders of an MQRFH2.
"""

import base64
import binascii
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mqdlq.errors import ConnectionSettingsError, LakeError
from mqdlq.handlers import Handler
from mqdlq.headers import PREFIX_LENGTH, read_rules_headers
from mqdlq.lake import SnapshotWriter, payload_row, payload_rows, read_manifest
from mqdlq.mqi.browse import ANY_PROPERTY, BrowseCursor, BrowsedMessage
from mqdlq.mqi.connect import QueueManager
from mqdlq.stages.snapshot.properties import PROPERTY_PREFIX_LENGTH
from mqdlq.stages.snapshot.rows import NumberedMessage

NONCE_LENGTH: Final = 12
_FIRST_READ_LENGTH: Final = 64 << 10
"""How many bytes of each body are browsed first if all is captured; a longer body is read alone."""


@dataclass(frozen=True, slots=True)
class PayloadKey:
    """A key for AES-GCM (16, 24 or 32 bytes) and its name."""

    key_id: str
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """What a snapshot captures, when every message gets a full row again, and what checks it.

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


class PayloadCapture:
    """Captures the payloads of one snapshot according to its options; with "none" it does nothing.

    Long bodies, and properties, are read by further browse cursors, which find a message by its
    MsgToken. `close` closes the queue handles of these cursors.
    """

    def __init__(
        self,
        options: SnapshotOptions,
        writer: SnapshotWriter,
        queue_manager: QueueManager,
        queue: str,
    ) -> None:
        self._max_length = options.max_captured_bytes
        self._writer, self._queue_manager, self._queue = writer, queue_manager, queue
        self._cipher = AESGCM(options.key.key) if options.key else None
        self._cursors: dict[bool, BrowseCursor] = {}
        self._open_queues = ExitStack()

    def close(self) -> None:
        self._open_queues.close()

    @property
    def browsed_length(self) -> int:
        """How many bytes of a body to browse first, for the headers and the captured payload."""
        return _FIRST_READ_LENGTH if self._max_length is None else PREFIX_LENGTH + self._max_length

    @property
    def asked(self) -> tuple[str, ...]:
        """The properties to ask of each message, so that those with any are known."""
        return () if self._max_length == 0 else (ANY_PROPERTY,)

    def keep(self, sighted: NumberedMessage, offset: int) -> None:
        """Capture the payload of a message, which begins at `offset` of its body.

        If the message has vanished, the bytes browsed first are captured.
        """
        if self._max_length == 0:
            return
        body, total = sighted.browsed.prefix, sighted.browsed.total_length
        if self._max_length is None and total > len(body):
            found = self._find(sighted.browsed, total)
            body = found.prefix if found else body
        payload = body[offset : None if self._max_length is None else offset + self._max_length]
        place = sighted.browse_seq, sighted.message_key
        properties = self._read_properties(sighted.browsed)
        if self._cipher is not None:
            payload = self._encrypt(payload, "payload", *place)
            properties = properties and self._encrypt(properties, "properties", *place)
        self._writer.write_payload(*place, max(0, total - offset), payload, properties)

    def _encrypt(self, data: bytes, column: str, browse_seq: int, message_key: bytes) -> bytes:
        bound = _build_associated_data(self._writer.snapshot_id, browse_seq, message_key, column)
        nonce = os.urandom(NONCE_LENGTH)
        return nonce + self._cipher.encrypt(nonce, data, bound) if self._cipher else data

    def _read_properties(self, browsed: BrowsedMessage) -> bytes | None:
        """Return the properties of a message as folders in UTF-8, None if they are not known."""
        if ANY_PROPERTY not in browsed.properties:
            return None
        found = self._find(browsed, PROPERTY_PREFIX_LENGTH, in_body=True)
        headers = found and read_rules_headers(*found[:3])
        if found and not headers and len(found.prefix) < found.total_length:
            found = self._find(browsed, found.total_length, in_body=True)
            headers = found and read_rules_headers(*found[:3])
        texts = (
            one if isinstance(one, bytes) else one.encode("utf-8", "surrogateescape")
            for header in headers or ()
            for one in header.folders
        )
        return b" ".join(texts)[: self._max_length] or None

    def _find(
        self, browsed: BrowsedMessage, length: int, *, in_body: bool = False
    ) -> BrowsedMessage | None:
        if in_body not in self._cursors:
            queue = self._open_queues.enter_context(self._queue_manager.browsing(self._queue))
            cursor = BrowseCursor(self._queue_manager, queue, self._queue, in_body=in_body)
            self._cursors[in_body] = cursor
        return self._cursors[in_body].find(browsed.token, length)


def read_payloads(directory: str, keys: Mapping[str, bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield (browse_seq, payload) of a snapshot; `keys` are those of the connection, by key id.

    Raises `LakeError` if the key is missing, or if a payload was altered.
    """
    decrypt = decryption(directory, keys)
    for row in payload_rows(directory):
        yield row["browse_seq"], decrypt(row)


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """The stored bytes of a payload, and its length in the message."""

    data: bytes
    length: int

    def __repr__(self) -> str:
        """Show no content, because the body is customer data."""
        return f"<payload of {len(self.data)} stored bytes>"


def read_payload(
    directory: str, browse_seq: int, keys: Mapping[str, bytes]
) -> StoredPayload | None:
    """Return the payload of one message of a snapshot, None if the snapshot does not have it.

    Raises `LakeError` like `read_payloads`.
    """
    row = payload_row(directory, browse_seq)
    if row is None:
        return None
    return StoredPayload(decryption(directory, keys)(row), row["payload_length"])


def decryption(directory: str, keys: Mapping[str, bytes]) -> Callable[..., bytes]:
    """Return what reads a stored row of a snapshot; raises as `read_payloads`.

    It reads the payload, or with "properties" as its second argument the properties, b"" for none.
    """
    manifest = read_manifest(directory)
    key_id = manifest.payload_key_id
    if key_id and key_id not in keys:
        known = ", ".join(sorted(keys)) or "none"
        raise LakeError(
            "MQDLQ-429",
            f"{directory}: its payload is encrypted by the key {key_id!r}; known are: {known}",
        )
    cipher = AESGCM(keys[key_id]) if key_id else None

    def decrypt(row: Mapping[str, Any], column: str = "payload") -> bytes:
        stored, browse_seq = bytes(row.get(column) or b""), row["browse_seq"]
        if cipher is None or not stored:
            return stored
        place = browse_seq, row["message_key"]
        bound = _build_associated_data(manifest.snapshot_id, *place, column)
        try:
            return cipher.decrypt(stored[:NONCE_LENGTH], stored[NONCE_LENGTH:], bound)
        except InvalidTag:
            raise LakeError(
                "MQDLQ-430",
                f"{directory}: the payload of message {browse_seq} is not what was written, or"
                f" the key {key_id!r} has changed",
            ) from None

    return decrypt


def _build_associated_data(
    snapshot_id: str, browse_seq: int, message_key: bytes, column: str
) -> bytes:
    bound = f"{snapshot_id} {browse_seq} ".encode() + message_key
    return bound if column == "payload" else bound + column.encode()


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
