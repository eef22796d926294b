"""Convert a browsed message into a row of a snapshot."""

from __future__ import annotations

from datetime import datetime
from operator import attrgetter
from typing import Final

from mqdlq.headers.ccsid import replace_undecodable
from mqdlq.headers.identity import message_key
from mqdlq.headers.message_description import describe
from mqdlq.headers.records import DLH_LENGTH, XQH_LENGTH, DeadLetterHeader, MessageDescriptor
from mqdlq.headers.representation import expires_at, parse_gmt
from mqdlq.structures import MQDLH, MQMD, MQMDE, MQRFH2

PREFIX_LENGTH: Final = DLH_LENGTH + XQH_LENGTH + MQMDE.length + MQRFH2.length
"""The number of body bytes that `header_row` reads: enough for the longest common chain."""

_MD_COLUMNS: Final = tuple(field.name for field in MQMD.fields)
_md_values: Final = attrgetter(*_MD_COLUMNS)
_DLH_COLUMNS: Final = tuple(f"dlh_{field.name}" for field in MQDLH.fields)
_dlh_values: Final = attrgetter(*(field.name for field in MQDLH.fields))
_NO_DLH_COLUMNS: Final[dict[str, object]] = dict.fromkeys(_DLH_COLUMNS)


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
    """Return one message under the column names of the snapshot's `headers`.

    `descriptor` is the packed MQMD, `body_prefix` the first `PREFIX_LENGTH` bytes or fewer if the
    message is shorter, `ccsid` the CCSID of the connection. Raises `MalformedHeaderError`.
    """
    md = MessageDescriptor.decode(descriptor, ccsid=ccsid)
    found = describe(
        body_prefix,
        total_length,
        encoding=md.encoding,
        ccsid=md.coded_char_set_id,
        format=md.format,
        msg_flags=md.msg_flags,
    )
    row: dict[str, object] = {
        "browse_seq": browse_seq,
        "message_key": message_key(descriptor, total_length, body_prefix),
        "class": found.cls.value,
        "problem": found.problem,
        **dict(zip(_MD_COLUMNS, _md_values(md), strict=True)),
        **_dlh_columns(found.dlh),
        "header_chain": [header.structure for header in found.headers],
        "payload_offset": found.payload_offset,
        "total_length": total_length,
        "ams_protected": found.ams_protected,
        "maybe_truncated": maybe_truncated,
        "expires_at": expires_at(md.expiry, browsed_at),
        "put_at": parse_gmt(md.put_date, md.put_time),
        "dead_lettered_at": parse_gmt(found.dlh.put_date, found.dlh.put_time)
        if found.dlh
        else None,
        "browsed_at": browsed_at,
        "chain_is_whole": found.is_whole,
    }
    return {
        name: replace_undecodable(value) if isinstance(value, str) else value
        for name, value in row.items()
    }


def _dlh_columns(dlh: DeadLetterHeader | None) -> dict[str, object]:
    return dict(zip(_DLH_COLUMNS, _dlh_values(dlh), strict=True)) if dlh else _NO_DLH_COLUMNS
