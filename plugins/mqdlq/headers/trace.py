"""A whole message without the trace properties that a queue manager may change when it is got.

IBM MQ for z/OS from 9.4.3 on, with OTELTRAC(ON), gives a message another `traceparent` when an
application receives it, so that it differs from what a browse has shown.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.chain import ChainedHeader, walk
from mqdlq.headers.dlh import DeadLetterHeader, encode_dlh
from mqdlq.headers.md import decode_md, encode_md
from mqdlq.headers.rfh import RulesHeader2, encode_rfh2

TRACE_PROPERTIES: Final = ("traceparent", "tracestate")
_NAMES: Final = "|".join(TRACE_PROPERTIES)
_ELEMENT: Final = re.compile(rf"<({_NAMES})(?:\s[^<>]*)?(?:/>|>[^<>]*</\1>)")
_USR: Final = re.compile(r"<usr[\s>]")
_EMPTY: Final = re.compile(r"<usr(?:\s[^<>]*)?(?:/>|>\s*</usr>)[\s\0]*")
_MULTIPLE: Final = 4


def without_trace_properties(descriptor: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Return the packed MQMD and the body of a message as if it had no trace properties.

    They stand in the folder `usr` of an MQRFH2, in UTF-8. An MQRFH2 that holds nothing else goes
    with them, and what describes it describes the data behind it instead. Any other message, and
    one whose headers cannot be read, comes back unchanged.
    """
    if not any(f"<{name}".encode() in body for name in TRACE_PROPERTIES):
        return descriptor, body
    try:
        return _without(descriptor, body)
    except MalformedHeaderError:
        return descriptor, body


def _without(descriptor: bytes, body: bytes) -> tuple[bytes, bytes]:
    md = decode_md(descriptor)
    how = {"encoding": md.encoding, "ccsid": md.coded_char_set_id}
    chain = walk(body, len(body), **how, format=md.format)
    parts = [body[chain.payload_offset :]]
    described: dict[str, Any] = {}
    for header in reversed(chain.headers):
        as_is = body[header.offset : header.offset + header.length]
        record: Any = header.record
        if isinstance(record, RulesHeader2):
            folders = tuple(each for each in map(_cleaned, record.folders) if each)
            if not folders and record.folders:
                described = described or _description(record)
                continue
            if folders != record.folders:
                record = replace(record, folders=folders)
        if described or record is not header.record:
            if _written(header, header.record) != as_is:
                raise MalformedHeaderError(header.structure, 0, "all of it to be read", "a part")
            as_is = _written(header, replace(record, **described))
        parts.append(as_is)
        described = {}
    if described:
        descriptor = encode_md(replace(md, **described))
    return descriptor, b"".join(reversed(parts))


def _cleaned(folder: str | bytes) -> str | bytes:
    """Return a folder without trace properties, "" where nothing else is in it."""
    if not isinstance(folder, str) or not _USR.match(folder):
        return folder
    kept, count = _ELEMENT.subn("", folder)
    if not count:
        return folder
    if _EMPTY.fullmatch(kept):
        return ""
    kept = kept.rstrip(" \0")
    return kept + " " * (-len(kept.encode("utf-8", "surrogateescape")) % _MULTIPLE)


def _description(record: RulesHeader2) -> dict[str, Any]:
    return {name: getattr(record, name) for name in ("encoding", "coded_char_set_id", "format")}


def _written(header: ChainedHeader, record: Any) -> bytes:
    how = {"encoding": header.encoding, "ccsid": header.ccsid}
    if isinstance(record, DeadLetterHeader):
        return encode_dlh(record, **how)
    if isinstance(record, RulesHeader2):
        return encode_rfh2(record, **how)
    raise MalformedHeaderError(header.structure, 0, "MQDLH or MQRFH2", header.structure)
