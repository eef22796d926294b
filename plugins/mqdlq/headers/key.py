"""Identify a message by a SHA-256 digest of its descriptor and its first bytes."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.records import DLH_LENGTH, MD_LENGTH
from mqdlq.structures import MQMD

_EXPIRY: Final = MQMD.slice_of("expiry")
_BACKOUT_COUNT: Final = MQMD.slice_of("backout_count")


def message_key(descriptor: bytes, total_length: int, body_prefix: bytes) -> bytes:
    """Return the digest of the parts of a message that neither time nor a backout changes.

    SHA-256 over the packed MQMD with Expiry and BackoutCount zeroed, the total length (8 bytes,
    big-endian) and the first min(172, total_length) bytes, got without conversion. Equal messages
    have equal keys. Raises `MalformedHeaderError` for any other length of descriptor or prefix.
    """
    if len(descriptor) != MD_LENGTH:
        raise MalformedHeaderError("MQMD", 0, f"{MD_LENGTH} bytes", f"{len(descriptor)}")
    needed = min(DLH_LENGTH, total_length)
    if len(body_prefix) < needed:
        expected = f"the first {needed} bytes of the message"
        raise MalformedHeaderError("MQDLH", len(body_prefix), expected, f"{len(body_prefix)}")
    steady = bytearray(descriptor)
    steady[_EXPIRY] = steady[_BACKOUT_COUNT] = bytes(4)
    digest = sha256(steady)
    digest.update(total_length.to_bytes(8, "big"))
    digest.update(body_prefix[:needed])
    return digest.digest()
