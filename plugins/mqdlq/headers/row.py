"""A browsed message as a row of a snapshot: descriptor and first bytes in, named columns out."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import datetime
from typing import Final

from mqdlq.headers.classify import classify
from mqdlq.headers.dlh import DLH_LENGTH, MQDLH, DeadLetterHeader
from mqdlq.headers.key import message_key
from mqdlq.headers.md import decode_md
from mqdlq.headers.times import expires_at, gmt

PREFIX_LENGTH: Final = DLH_LENGTH + 4
"""How much of a body `header_row` looks at: the MQDLH and the StrucId of what follows it."""

_HEADER_FORMATS: Final = {
    "MQCICS": "MQCIH",
    "MQDEAD": "MQDLH",
    "MQHMDE": "MQMDE",
    "MQHRF": "MQRFH",
    "MQHRF2": "MQRFH2",
    "MQIMS": "MQIIH",
    "MQTRIG": "MQTM",
    "MQXMIT": "MQXQH",
}
_AMS_STRUC_IDS: Final = {b"PDMQ", "PDMQ".encode("cp500")}
_NO_CHARACTER: Final = re.compile("[\ud800-\udfff]")


def header_row(
    browse_seq: int,
    descriptor: bytes,
    body_prefix: bytes,
    total_length: int,
    *,
    browsed_at: datetime,
    maybe_truncated: bool = False,
    ccsid: int = 1208,
) -> dict[str, object]:
    """Describe one message under the column names of the snapshot's `headers`.

    `descriptor` is the packed MQMD, `body_prefix` the first `PREFIX_LENGTH` bytes or what there
    is, `ccsid` the connection's. Raises `MalformedHeaderError`.
    """
    md = decode_md(descriptor, ccsid=ccsid)
    found = classify(
        body_prefix,
        total_length,
        encoding=md.encoding,
        ccsid=md.coded_char_set_id,
        format=md.format,
    )
    payload_offset = DLH_LENGTH if found.dlh else 0
    row: dict[str, object] = {
        "browse_seq": browse_seq,
        "message_key": message_key(descriptor, total_length, body_prefix),
        "class": found.cls.value,
        "problem": found.problem,
        **asdict(md),
        **_dlh_columns(found.dlh),
        "header_chain": _chain(found.dlh),
        "payload_offset": payload_offset,
        "total_length": total_length,
        "ams_protected": body_prefix[payload_offset : payload_offset + 4] in _AMS_STRUC_IDS,
        "maybe_truncated": maybe_truncated,
        "expires_at": expires_at(md.expiry, browsed_at),
        "put_at": gmt(md.put_date, md.put_time),
        "dead_lettered_at": gmt(found.dlh.put_date, found.dlh.put_time) if found.dlh else None,
    }
    return {
        name: _storable(value) if isinstance(value, str) else value for name, value in row.items()
    }


def _dlh_columns(dlh: DeadLetterHeader | None) -> dict[str, object]:
    values = asdict(dlh) if dlh else {}
    return {f"dlh_{field.name}": values.get(field.name) for field in MQDLH.fields}


def _chain(dlh: DeadLetterHeader | None) -> list[str]:
    """Name the headers the body begins with, as far as the MQDLH itself says."""
    if dlh is None:
        return []
    following = _HEADER_FORMATS.get(dlh.format.rstrip("\0"))
    return ["MQDLH", following] if following else ["MQDLH"]


def _storable(text: str) -> str:
    """Put U+FFFD for each byte that was no character: Parquet holds UTF-8 only."""
    return text if text.isascii() else _NO_CHARACTER.sub("\ufffd", text)
