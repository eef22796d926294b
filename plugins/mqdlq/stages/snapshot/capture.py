"""What is kept of the bodies: a browsed message in, as much of it as the handler wants out.

The payload is what follows the MQDLH, or the whole body where there is none. Encrypted, it is a
nonce of 12 bytes and what AES-GCM makes of it, bound to the snapshot and the message: it is
authentic only there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mqdlq.errors import LakeError
from mqdlq.headers import PREFIX_LENGTH
from mqdlq.lake import SnapshotWriter, payload_rows, read_manifest
from mqdlq.mqi.browse import BrowseCursor, Browsed
from mqdlq.mqi.connect import QueueManager
from mqdlq.stages.snapshot.rows import Sighted
from mqdlq.stages.snapshot.snapshot_options import SnapshotOptions

NONCE: Final = 12
_AT_ONCE: Final = 64 << 10
"""How much of every body is browsed where all is kept; what is longer is browsed again alone."""


class Capture:
    """Keeps payloads of one snapshot, as its options say; with "none" it does nothing.

    A long body is read alone, by a browse cursor of its own that finds it by its MsgToken. The
    second queue handle that this takes is closed by `close`.
    """

    def __init__(
        self,
        options: SnapshotOptions,
        writer: SnapshotWriter,
        queue_manager: QueueManager,
        queue: str,
    ) -> None:
        self._wanted = options.captured
        self._writer, self._queue_manager, self._queue = writer, queue_manager, queue
        self._cipher = AESGCM(options.key.key) if options.key else None
        self._second: BrowseCursor | None = None
        self._open = ExitStack()

    def close(self) -> None:
        """Close the second queue handle, if there is one."""
        self._open.close()

    @property
    def browsed_length(self) -> int:
        """How much of a body to browse at first: what the headers need, and what is kept."""
        return _AT_ONCE if self._wanted is None else PREFIX_LENGTH + self._wanted

    def keep(self, sighted: Sighted, offset: int) -> None:
        """Keep the payload of a message, which begins at `offset` of its body.

        Of a message that has vanished, the beginning is kept that was seen.
        """
        if self._wanted == 0:
            return
        body, total = sighted.browsed.prefix, sighted.browsed.total_length
        if self._wanted is None and total > len(body):
            body = self._whole(sighted.browsed) or body
        payload = body[offset:] if self._wanted is None else body[offset : offset + self._wanted]
        if self._cipher is not None:
            bound = _bound_to(self._writer.snapshot_id, sighted.browse_seq, sighted.message_key)
            payload = _encrypted(self._cipher, payload, bound)
        self._writer.write_payload(
            sighted.browse_seq, sighted.message_key, max(0, total - offset), payload
        )

    def _whole(self, browsed: Browsed) -> bytes:
        """Return a whole body, b"" where the message has gone."""
        if self._second is None:
            queue = self._open.enter_context(self._queue_manager.browsing(self._queue))
            self._second = BrowseCursor(self._queue_manager, queue, self._queue)
        found = self._second.find(browsed.token, browsed.total_length)
        return found.prefix if found else b""


def payloads(directory: str, keys: Mapping[str, bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield (browse_seq, payload) of a snapshot; `keys` are those of the connection, by key id.

    Raises `LakeError` where the key is not among them, or a payload is not what was written.
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
    for row in payload_rows(directory):
        payload, browse_seq = row["payload"], row["browse_seq"]
        if cipher is not None:
            bound = _bound_to(manifest.snapshot_id, browse_seq, row["message_key"])
            try:
                payload = cipher.decrypt(payload[:NONCE], payload[NONCE:], bound)
            except InvalidTag:
                raise LakeError(
                    "MQDLQ-430",
                    f"{directory}: the payload of message {browse_seq} is not what was written, or"
                    f" the key {key_id!r} has changed",
                ) from None
        yield browse_seq, payload


def _encrypted(cipher: AESGCM, payload: bytes, bound: bytes) -> bytes:
    nonce = os.urandom(NONCE)
    return nonce + cipher.encrypt(nonce, payload, bound)


def _bound_to(snapshot_id: str, browse_seq: int, message_key: bytes) -> bytes:
    return f"{snapshot_id} {browse_seq} ".encode() + message_key
