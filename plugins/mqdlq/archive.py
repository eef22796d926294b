"""Copies of messages that are to be discarded: whole messages in, verified Parquet files out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.errors import LakeError
from mqdlq.headers import message_key
from mqdlq.lake import storage

SCHEMA = pa.schema(
    [
        pa.field("message_id", pa.int64(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),
        pa.field("descriptor", pa.binary(), nullable=False),
        pa.field("body", pa.binary(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Copy:
    """One message to keep: its packed MQMD (364 bytes) and its whole body.

    Message properties, where it has any, are in the body, in an MQRFH2: put with this MQMD and all
    its context, it is the same message again.
    """

    message_id: int
    descriptor: bytes
    body: bytes

    @property
    def digest(self) -> str:
        """SHA-256 over the message's key and its whole body, as hex."""
        return full_digest(self.descriptor, self.body)

    def __repr__(self) -> str:
        """Show no content: the body is a customer's."""
        return f"<Copy of message {self.message_id}, {len(self.body)} bytes>"


def full_digest(descriptor: bytes, body: bytes) -> str:
    """Return what a copy and a message got later must agree on, as hex."""
    return hashlib.sha256(message_key(descriptor, len(body), body) + body).hexdigest()


def write_copies(
    root: str, run_id: str, name: str, copies: Iterable[Copy]
) -> tuple[str, dict[int, str]]:
    """Write the copies to one private file, read it back; return where, and digests by message id.

    Raises LakeError where what was read back is not what was written; nothing may be discarded
    then.
    """
    location = copies_location(root, run_id, name)
    storage.make_directory(location.rsplit("/", 1)[0])
    digests: dict[int, str] = {}
    with storage.new_file(location) as file, pq.ParquetWriter(file, SCHEMA) as writer:
        for copy in copies:
            digests[copy.message_id] = copy.digest
            row = {
                "message_id": copy.message_id,
                "digest": copy.digest,
                "descriptor": copy.descriptor,
                "body": copy.body,
            }
            writer.write_table(pa.Table.from_pylist([row], schema=SCHEMA))
    if read_back(location) != digests:
        raise LakeError(f"{location}: the archive copies read back are not what was written")
    return location, digests


def read_back(location: str) -> dict[int, str]:
    """Return message id to the digest computed anew from the copies in a file."""
    files, path = storage.filesystem(location)
    digests = {}
    with files.open(path, "rb") as file:
        for batch in pq.ParquetFile(file).iter_batches(batch_size=16):
            for row in batch.to_pylist():
                digests[row["message_id"]] = full_digest(row["descriptor"], row["body"])
    return digests


def copies_location(root: str, run_id: str, name: str) -> str:
    """Return where a run's copies stand."""
    return f"{root.rstrip('/')}/archive/{run_id}/{name}.parquet"
