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
from mqdlq.headers.records import UTF_8, DeadLetterHeader, MessageDescriptor
from mqdlq.headers.rfh import RulesHeader2

TRACE_PROPERTIES: Final = ("traceparent", "tracestate")
_NAMES: Final = "|".join(TRACE_PROPERTIES)
_ELEMENT: Final = re.compile(rf"<({_NAMES})(?:\s[^<>]*)?(?:/>|>[^<>]*</\1>)")
_TAG: Final = re.compile(r"<(/?)[^<>]*?(/?)>")
_USR: Final = re.compile(r"(<usr(?:\s[^<>]*)?(?<!/)>)(.*)(</usr>)[ \0]*", re.DOTALL)
_NO_ELEMENTS: Final = ("<!", "<?")
_MULTIPLE: Final = 4


def without_trace_properties(descriptor: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Return the packed MQMD and the body of a message as if it had no trace properties.

    They stand right in the folder `usr` of an MQRFH2, in UTF-8: what has their name in a group of
    properties is another property. An MQRFH2 that holds and says nothing else goes with them, and
    what describes it describes the data behind it instead. Any other message, and one whose headers
    cannot be read, comes back unchanged.
    """
    if not any(f"<{name}".encode() in body for name in TRACE_PROPERTIES):
        return descriptor, body
    try:
        return _without(descriptor, body)
    except MalformedHeaderError:
        return descriptor, body


def _without(descriptor: bytes, body: bytes) -> tuple[bytes, bytes]:
    md = MessageDescriptor.decode(descriptor)
    how = {"encoding": md.encoding, "ccsid": md.coded_char_set_id}
    chain = walk(body, len(body), **how, format=md.format)
    parts = [body[chain.payload_offset :]]
    described: dict[str, Any] = {}
    for header in reversed(chain.headers):
        as_is = body[header.offset : header.offset + header.length]
        record: Any = header.record
        if isinstance(record, RulesHeader2) and record.name_value_ccsid == UTF_8:
            folders = tuple(each for each in map(_cleaned, record.folders) if each)
            if not folders and record.folders and not record.flags:
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
        descriptor = replace(md, **described).encode()
    return descriptor, b"".join(reversed(parts))


def _cleaned(folder: str | bytes) -> str | bytes:
    """Return a folder without trace properties, "" where nothing else is in it."""
    found = _USR.fullmatch(folder) if isinstance(folder, str) else None
    if found is None:
        return folder
    begin, content, end = found.groups()
    kept = _without_elements(content)
    if kept == content:
        return folder
    if begin == "<usr>" and not kept:
        return ""
    whole = f"{begin}{kept}{end}"
    return whole + " " * (-len(whole.encode("utf-8", "surrogateescape")) % _MULTIPLE)


def _without_elements(content: str) -> str:
    """Return the content of a folder without the elements of trace properties right in it.

    Content with comments, or anything that no property is made of, comes back unchanged.
    """
    if any(sign in content for sign in _NO_ELEMENTS):
        return content
    kept, depth, at = [], 0, 0
    while tag := _TAG.search(content, at):
        trace = None if depth else _ELEMENT.match(content, tag.start())
        kept.append(content[at : tag.start() if trace else tag.end()])
        at = trace.end() if trace else tag.end()
        is_end, is_empty = tag.groups()
        if not trace and not is_empty:
            depth += -1 if is_end else 1
    return "".join([*kept, content[at:]])


def _description(record: RulesHeader2) -> dict[str, Any]:
    return {name: getattr(record, name) for name in ("encoding", "coded_char_set_id", "format")}


def _written(header: ChainedHeader, record: Any) -> bytes:
    if isinstance(record, DeadLetterHeader | RulesHeader2):
        return record.encode(encoding=header.encoding, ccsid=header.ccsid)
    raise MalformedHeaderError(header.structure, 0, "MQDLH or MQRFH2", header.structure)
