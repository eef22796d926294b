"""The tables of docs/reference/snapshot-schema.md: the columns of snapshots, and their manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

import pyarrow as pa

from mqdlq.lake.schema import HEADERS, PAYLOAD, SETTLED, SnapshotManifest
from mqdlq.model import MessageClass
from mqdlq.structures import MQDLH, MQMD, Packed
from tests.support.docs.tables import table

_HEADERS: Final = {
    "browse_seq": "Position in browse order, from 1",
    "message_key": "SHA-256 that identifies the message: over its MQMD with Expiry and"
    " BackoutCount set to zero, its length, and its first 172 bytes",
    "class": "Class of the message: " + ", ".join(f"`{cls.value}`" for cls in MessageClass),
    "problem": 'Description of irregularities; "" if there are none',
    "header_chain": "The headers at the beginning of the body, in order",
    "payload_offset": "Offset of the application data, after the MQDLH",
    "total_length": "Length of the body in bytes",
    "ams_protected": "Whether Advanced Message Security protects what follows the MQDLH",
    "maybe_truncated": "Whether the message is as long as the queue or the queue manager allows, so"
    " that it may be truncated",
    "expires_at": "When it expires, from the remaining Expiry; null for never",
    "put_at": "PutDate and PutTime of the MQMD; null if they are not a valid time",
    "dead_lettered_at": "PutDate and PutTime of the MQDLH; null if they are not a valid time",
    "browsed_at": "When the message was browsed; its age is measured at this time",
    "chain_is_whole": "Whether no header of the chain is unreadable",
    "expires_before_next_pass": "Whether it expires within RETRYINT of the browse",
    "came_from_backout": "Whether it was put here after being backed out: its reason states it, its"
    " BackoutCount has reached its destination's BOTHRESH, or this queue is its destination's"
    " BOQNAME",
    "dest_backout_threshold": "BOTHRESH of its destination; null if unknown",
    "dest_backout_requeue_q": "BOQNAME of its destination; null if unknown",
    "attempts_made": "Number of attempts that runs have made on it while it was on this queue; null"
    " unless the rules compare `attempts`",
    "properties_met": "The conditions on message properties in the run's rules that it meets; null"
    " unless the rules compare `property`",
    "properties_unmet": "The other such conditions. A condition in neither column was not asked, or"
    " its property cannot be read",
}
_SETTLED: Final = {
    "browse_seq": "Position in browse order, counted together with full rows",
    "message_key": "As in `headers`",
    "occurrence": "Number among equal messages, from 0",
    "snapshot_id": "The snapshot with its full row, under the same `message_key`",
    "outcome": "Outcome of the message in the run that settled it",
    "rule": "Ordinal of the rule that decided, or 0",
    "action": 'Action of that rule, or ""',
    "target_q": 'Target of that action, or ""',
    "target_q_mgr": 'Queue manager of the target, or ""',
    "expires_at": "When it expires; null for never",
}
_PAYLOAD: Final = {
    "browse_seq": "Position in browse order",
    "message_key": "As in `headers`",
    "payload_length": "Length of the data after the MQDLH, or of the body if it has none",
    "payload": "The stored first bytes of that data; if encrypted, after a nonce of 12 bytes",
    "properties": "The message properties as folders of an MQRFH2 in UTF-8, at most as many bytes;"
    " if encrypted, after a nonce of 12 bytes; null without properties, or if they cannot be read",
}
_MANIFEST: Final = {
    "snapshot_id": "Id, which begins with the time of the snapshot",
    "queue_manager": "The queue manager",
    "queue": "The queue",
    "taken_at": "When the browse began",
    "taken_by": "The person or event that started the run, or the account that imported it",
    "messages": "Number of messages, including those with compact rows",
    "bytes": "Total length of their bodies in bytes",
    "digest": "SHA-256 (hex) over the message keys in browse order",
    "rules_digest": "Digest of the run's rules table",
    "rules_text": "Text of that table",
    "payload": "Which part of the bodies is stored: `none`, `head: N`, `full`",
    "nul_as_blank": "Whether the table's patterns compare NULs as blanks",
    "imported_from": "The imported files, if no queue was browsed",
    "put_together_from": "The merged snapshots, if a backfill created it",
    "message_keys": "The messages (hex) that the run was started for, if they were named",
    "has_given_action": "Whether the rules table is a single action, given for some messages",
    "queue_kind": "`dead_letter` or `backout`: the kind of the queue, which says what rules act on",
    "settled": "Number of messages with compact rows",
    "refers_to": "The snapshots with their full rows",
    "payload_key_id": 'The key that encrypts the payload, or ""',
    "files": "The data files by their place here, each with its length and the SHA-256 (hex) of"
    " each block of 4 MiB, which mqdlq verifies when it reads the block",
    "schema_version": "Version of this schema",
}


def headers() -> str:
    """Return the columns of full rows."""
    return _columns(HEADERS, {**_of(MQMD, ""), **_of(MQDLH, "dlh_"), **_HEADERS})


def settled() -> str:
    """Return the columns of compact rows."""
    return _columns(SETTLED, _SETTLED)


def payload() -> str:
    """Return the columns of stored bodies."""
    return _columns(PAYLOAD, _PAYLOAD)


def manifest() -> str:
    """Return the fields of a manifest."""
    names = [entry.name for entry in fields(SnapshotManifest)]
    return table(("field", "meaning"), ((f"`{name}`", _MANIFEST[name]) for name in names))


def _of(layout: type[Packed], prefix: str) -> dict[str, str]:
    return {
        f"{prefix}{entry.name}": f"{layout.structure}.{entry.ibm_name}" for entry in layout.fields
    }


def _columns(schema: pa.Schema, meanings: Mapping[str, str]) -> str:
    rows = (
        (
            f"`{entry.name}`",
            _type(entry.type),
            "yes" if entry.nullable else "no",
            meanings[entry.name],
        )
        for entry in schema
    )
    return table(("column", "type", "null", "meaning"), rows)


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {kind.value_type}"
    return "timestamp, UTC" if pa.types.is_timestamp(kind) else str(kind)
