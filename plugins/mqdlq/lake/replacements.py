"""Keep the bodies that repairs put in place of others, each under its SHA-256 digest.

A run is given the digest alone: a body is in no parameter of a run, no XCom and no log.
"""

import hashlib
from datetime import datetime

from mqdlq.errors import LakeError
from mqdlq.lake import storage


def write_replacement(root: str, handler: str, body: bytes) -> str:
    """Store a body for repairs of a handler in a private file, read it back, return its digest."""
    digest = hashlib.sha256(body).hexdigest()
    storage.make_directory(_directory(root, handler))
    with storage.new_file(_place(root, handler, digest)) as file:
        file.write(body)
    read_replacement(root, handler, digest)
    return digest


def read_replacement(root: str, handler: str, digest: str) -> bytes:
    """Return a stored body; raise LakeError if it is missing or not what its digest says."""
    place = _place(root, handler, digest)
    body = storage.read_bytes(place)
    if body is None or hashlib.sha256(body).hexdigest() != digest:
        fault = "is missing; it may be pruned" if body is None else "was altered"
        raise LakeError("MQDLQ-474", f"{place}: the replacement {fault}; store it again")
    return body


def remove_replacements(root: str, handler: str, before: datetime) -> None:
    """Remove the bodies of a handler that were stored last before a moment."""
    for place in storage.matching(_directory(root, handler), "/*"):
        if storage.written_at(place) < before:
            storage.remove_file(place)


def _place(root: str, handler: str, digest: str) -> str:
    return f"{_directory(root, handler)}/{storage.checked_id('replacement', digest)}"


def _directory(root: str, handler: str) -> str:
    return f"{root.rstrip('/')}/replacements/{storage.checked_id('handler', handler)}"
