"""The captured body of one message, for people who may see it; every look is in the audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from mqdlq import lake
from mqdlq.headers.ccsid import UTF_16, following_ccsid, text_codec
from mqdlq.ledger import AuditEvent, KnownSnapshot, Ledger
from mqdlq.model import AuditKind
from mqdlq.stages.snapshot.capture import StoredPayload, read_payload
from mqdlq.web.page_errors import NotFoundError

SHOWN_BYTES: Final = 64 << 10
_EBCDIC: Final = 500
_LINE: Final = 16
_SPACES: Final = "\n\t"


class BodyForm(StrEnum):
    """How a body is shown."""

    TEXT = "text"
    HEX = "hex"
    EBCDIC = "ebcdic"


@dataclass(frozen=True, slots=True)
class ShownBody:
    """The beginning of a body as text, and lengths in bytes: shown, stored, and of the message."""

    text: str
    note: str
    shown: int
    stored: int
    length: int

    def __repr__(self) -> str:
        """Show no content, because the body is customer data."""
        return f"<{self.shown} bytes of a body>"


def reveal_body(
    snapshot: KnownSnapshot,
    row: Mapping[str, Any],
    form: BodyForm,
    keys: Mapping[str, bytes],
    *,
    who: str,
    now: datetime,
    ledger: Ledger,
    lake_root: str,
) -> ShownBody:
    """Return a body in a form, after the look is recorded in the audit.

    If it cannot be recorded, LedgerUnavailableError is raised and nothing is shown. Raises
    NotFoundError if no body is captured, and `LakeError` if its key is missing.
    """
    directory = lake.snapshot_directory(
        lake_root, snapshot.queue_manager, snapshot.queue, snapshot.snapshot_id
    )
    payload = read_payload(directory, row["browse_seq"], keys)
    if payload is None:
        raise NotFoundError(
            "MQDLQ-945",
            f"Snapshot {snapshot.snapshot_id} has no body of this message; bodies are captured if"
            " the handler's `payload` says so",
        )
    shown = _shown(payload, row, form)
    ledger.audit.record(
        AuditEvent(
            at=now,
            what=AuditKind.BODY_SHOWN,
            who=who,
            handler=snapshot.handler,
            run_id=snapshot.run_id,
            message_key=row["message_key"].hex(),
            messages=1,
            details=f"{shown.shown} of {shown.length} bytes as {form}",
        )
    )
    return shown


def _shown(payload: StoredPayload, row: Mapping[str, Any], form: BodyForm) -> ShownBody:
    data = payload.data[:SHOWN_BYTES]
    if form is BodyForm.HEX:
        text, note = hex_dump(data), ""
    elif form is BodyForm.EBCDIC:
        text, note = _decoded(data, _EBCDIC)
    else:
        text, note = _decoded(data, _ccsid_of(row))
    return ShownBody(text, note, len(data), len(payload.data), payload.length)


def _ccsid_of(row: Mapping[str, Any]) -> int:
    """Return the CCSID that the last header in the snapshot states for the data after it."""
    outer = int(row["coded_char_set_id"] or 0)
    stated = row["dlh_coded_char_set_id"]
    return outer if stated is None else following_ccsid(int(stated), outer)


def _decoded(data: bytes, ccsid: int) -> tuple[str, str]:
    """Return text in a CCSID and a note; unknown CCSIDs give a hexadecimal dump."""
    if ccsid in UTF_16:
        return printable(data.decode("utf-16-be", "replace")), f"In CCSID {ccsid}."
    codec = text_codec(ccsid)
    if codec is None:
        return hex_dump(data), f"CCSID {ccsid} is not one that can be shown as text."
    return printable(codec.decode(data)), f"In CCSID {ccsid}."


def printable(text: str) -> str:
    """Return text in which no character acts on a page; lines and tabs stay."""
    return "".join(
        char
        if char.isprintable() or char in _SPACES
        else char.encode("unicode_escape").decode("ascii")
        for char in text.replace("\r\n", "\n")
    )


def hex_dump(data: bytes) -> str:
    """Return lines with the offset, sixteen bytes in hexadecimal digits, and their ASCII."""
    lines = []
    for start in range(0, len(data), _LINE):
        part = data[start : start + _LINE]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)  # noqa: PLR2004
        lines.append(f"{start:08x}  {part.hex(' ', -2):<39}  {letters}")
    return "\n".join(lines)
