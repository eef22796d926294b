"""The schema of snapshots in words: nothing in, the text of docs/reference/snapshot-schema.md out.

`python -m mqdlq.lake.schema_document > docs/reference/snapshot-schema.md` writes it anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final

import pyarrow as pa

from mqdlq.lake.descriptions import SNAPSHOT_VERSION, SnapshotManifest
from mqdlq.lake.schema import HEADERS, PARKED, PAYLOAD
from mqdlq.model import MessageClass
from mqdlq.structures import MQDLH, MQMD, Packed

_HEADERS: Final = {
    "browse_seq": "Place in browse order, from 1",
    "message_key": "SHA-256 that identifies the message: over its MQMD with Expiry and"
    " BackoutCount zeroed, its length, and its first 172 bytes",
    "class": "What it is: " + ", ".join(f"`{cls.value}`" for cls in MessageClass),
    "problem": 'What is odd about it, in words; "" if nothing is',
    "header_chain": "The headers the body begins with, in their order",
    "payload_offset": "Where the application's data begin, behind the MQDLH",
    "total_length": "Length of the body in bytes",
    "ams_protected": "Whether Advanced Message Security protects what follows the MQDLH",
    "maybe_truncated": "Whether it is as long as the queue or the queue manager allows, and so may"
    " have been cut",
    "expires_at": "When it expires, by the Expiry that was left; null for never",
    "put_at": "PutDate and PutTime of the MQMD; null where they are no time",
    "dead_lettered_at": "PutDate and PutTime of the MQDLH; null where they are no time",
    "expires_before_next_pass": "Whether it expires within RETRYINT of the browse (since 2)",
    "came_from_backout": "Whether it came here by being backed out: its reason says so, its"
    " BackoutCount has come to its destination's BOTHRESH, or this queue is its destination's"
    " BOQNAME (since 2)",
    "dest_backout_threshold": "BOTHRESH of its destination, null where that is unknown (since 2)",
    "dest_backout_requeue_q": "BOQNAME of its destination, null where that is unknown (since 2)",
}
_PARKED: Final = {
    "browse_seq": "Place in browse order, in one count with the full rows",
    "message_key": "As in `headers`",
    "occurrence": "Which of equal messages it is, from 0",
    "snapshot_id": "The snapshot that holds its full row, under the same `message_key`",
    "outcome": "How it was left",
    "rule": "Ordinal of the rule that decided, 0 if none did",
    "action": 'Action of that rule, or ""',
    "target_q": 'Target of that action, or ""',
    "target_q_mgr": 'Queue manager of the target, or ""',
    "expires_at": "When it expires; null for never",
}
_PAYLOAD: Final = {
    "browse_seq": "Place in browse order",
    "message_key": "As in `headers`",
    "payload_length": "Length of all that follows the MQDLH, or of the body without one",
    "payload": "The captured beginning of it; encrypted, 12 bytes of nonce before it",
}
_MANIFEST: Final = {
    "snapshot_id": "Its id, which begins with the time it was taken",
    "queue_manager": "The queue manager",
    "queue": "The queue",
    "taken_at": "When the browse began",
    "taken_by": "Who or what has started the run that took it, or the account that imported it",
    "messages": "How many messages there were, parked ones included",
    "bytes": "Bytes of their bodies",
    "digest": "SHA-256 (hex) over their keys in browse order",
    "rules_digest": "Digest of the rules table the run had read",
    "rules_text": "That table",
    "payload": "What was captured: `none`, `head: N`, `full`",
    "nul_as_blank": "Whether its patterns take NULs for blanks",
    "imported_from": "The files it was made of, where no queue was browsed",
    "put_together_from": "The snapshots it was made of, where a backfill made it",
    "message_keys": "The messages (hex) that the run's plan covers; none means all",
    "has_given_action": "Whether the rules table is one action, given for these messages",
    "parked": "How many messages have compact rows (since 2)",
    "refers_to": "The snapshots that hold the full rows of those (since 2)",
    "payload_key_id": 'The key that encrypts the payload, "" if none does (since 2)',
    "schema_version": "The version of this schema",
}
_HEAD: Final = f"""\
# What a snapshot holds

Version {SNAPSHOT_VERSION}. Snapshots of every earlier version are read, too; what they lack is
null or off.
This page is written by `python -m mqdlq.lake.schema_document`, and a test holds it to the code.

A snapshot stands in `snapshots/queue_manager=<QM>/queue=<Q>/<snapshot_id>/` below the lake's
location.
Names are percent-encoded where a path needs it.
`_MANIFEST.json` is written last and atomically: a directory without it is no snapshot.

Text is UTF-8 without trailing blanks; NULs are kept; a byte that is no character is U+FFFD.
Identifiers are binary. Times are UTC, to the microsecond.
"""


def document() -> str:
    """Return the page."""
    columns = {**_of(MQMD, ""), **_of(MQDLH, "dlh_"), **_HEADERS}
    return "\n".join(
        (
            _HEAD,
            "## headers/*.parquet",
            "",
            "A full row per message that is new or due, in browse order. `dlh_` columns are null",
            "without an MQDLH.",
            "",
            *_table(HEADERS, columns),
            "",
            "## parked/*.parquet",
            "",
            "A compact row per message that an earlier run left for good under the same rules.",
            "Absent where there is none.",
            "",
            *_table(PARKED, _PARKED),
            "",
            "## payload/*.parquet",
            "",
            "Only with `payload` in the handler; see [snapshots](../explanation/snapshots.md).",
            "",
            *_table(PAYLOAD, _PAYLOAD),
            "",
            "## _MANIFEST.json",
            "",
            "| field | meaning |",
            "|---|---|",
            *(f"| `{name}` | {_MANIFEST[name]} |" for name in _manifest_fields()),
            "",
        )
    )


def _manifest_fields() -> list[str]:
    return [entry.name for entry in fields(SnapshotManifest)]


def _of(layout: type[Packed], prefix: str) -> dict[str, str]:
    return {
        f"{prefix}{entry.name}": f"{layout.structure}.{entry.ibm_name}" for entry in layout.fields
    }


def _table(schema: pa.Schema, meanings: Mapping[str, str]) -> Iterator[str]:
    yield "| column | type | null | meaning |"
    yield "|---|---|---|---|"
    for entry in schema:
        null = "yes" if entry.nullable else "no"
        yield f"| `{entry.name}` | {_type(entry.type)} | {null} | {meanings[entry.name]} |"


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {kind.value_type}"
    return "timestamp, UTC" if pa.types.is_timestamp(kind) else str(kind)


if __name__ == "__main__":
    sys.stdout.write(document())
