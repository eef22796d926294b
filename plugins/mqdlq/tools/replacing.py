"""Replace the body of a message: store the replacement, and show how it differs."""

import difflib
from collections.abc import Mapping
from typing import Any, Final

from mqdlq.controls.repair import LONGEST_BODY
from mqdlq.headers.ccsid import following_ccsid, read_text
from mqdlq.lake.replacements import write_replacement
from mqdlq.ledger.reading.message_facts import KnownSnapshot
from mqdlq.ledger.tables import AuditEvent
from mqdlq.model import AuditKind
from mqdlq.tools.acting import ActionError, Sources
from mqdlq.words import count

SHOWN_BYTES: Final = 64 << 10
_LINE: Final = 16


def store_replacement(body: bytes, message_key: str, who: str, sources: Sources) -> dict[str, Any]:
    """Store a body for a message, and record who did; return the fields of its repair."""
    if len(body) > LONGEST_BODY:
        raise ActionError("body", "it is too long", f"at most {LONGEST_BODY:,} bytes")
    digest = write_replacement(sources.lake_root, sources.handler, body)
    stored = AuditEvent(
        at=sources.clock(),
        what=AuditKind.REPLACEMENT_STORED,
        who=who,
        handler=sources.handler,
        message_key=message_key,
        messages=1,
        details=f"{count(len(body), 'byte')} with SHA-256 {digest}",
    )
    sources.ledger.audit.record(stored)
    return {"body_sha256": digest, "body_length": len(body)}


def record_look(
    sources: Sources, who: str, snapshot: KnownSnapshot, row: Mapping[str, Any], details: str
) -> None:
    """Record that a person looks at the captured body of a message, before it is shown."""
    look = AuditEvent(
        at=sources.clock(),
        what=AuditKind.BODY_SHOWN,
        who=who,
        handler=snapshot.handler,
        run_id=snapshot.run_id,
        message_key=row["message_key"].hex(),
        messages=1,
        details=details,
    )
    sources.ledger.audit.record(look)


def difference(old: bytes, new: bytes, row: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return in lines how a replacement differs from a captured body, and how both are shown.

    They are shown as text if both are text in the character set of the message with this `row`.
    """
    prefix = "" if row["dlh_coded_char_set_id"] is None else "dlh_"
    ccsid = following_ccsid(row[f"{prefix}coded_char_set_id"], row["coded_char_set_id"])
    both = old[:SHOWN_BYTES], new[:SHOWN_BYTES]
    texts = [read_text(one, ccsid, row[f"{prefix}encoding"]) for one in both]
    note = f"As text in CCSID {ccsid}."
    if None in texts:
        texts = [*map(hex_dump, both)]
        note = f"As hexadecimal digits, because not both are text in CCSID {ccsid}."
    was, becomes = ((text or "").split("\n") for text in texts)
    lines = difflib.unified_diff(was, becomes, "original", "replacement", lineterm="")
    return list(lines), note


def hex_dump(data: bytes) -> str:
    lines = []
    for start in range(0, len(data), _LINE):
        part = data[start : start + _LINE]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)  # noqa: PLR2004
        lines.append(f"{start:08x}  {part.hex(' ', -2):<39}  {letters}")
    return "\n".join(lines)
