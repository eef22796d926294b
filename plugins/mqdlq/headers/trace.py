"""Remove the trace properties from a message, which a queue manager may change at a get.

IBM MQ for z/OS from 9.4.3 on, with OTELTRAC(ON), gives a message another `traceparent` when an
application receives it, so that the message differs from the browsed one.
"""

import re
from dataclasses import replace
from typing import Any, Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.chain import ChainedHeader, walk
from mqdlq.headers.records import UTF_8, DeadLetterHeader, MessageDescriptor, RulesHeader2

TRACE_PROPERTIES: Final = ("traceparent", "tracestate")
_NAMES: Final = "|".join(TRACE_PROPERTIES)
_ELEMENT: Final = re.compile(rf"<({_NAMES})(?:\s[^<>]*)?(?:/>|>[^<>]*</\1>)")
_TAG: Final = re.compile(r"<(/?)[^<>]*?(/?)>")
_USR: Final = re.compile(r"(<usr(?:\s[^<>]*)?(?<!/)>)(.*)(</usr>)[ \0]*", re.DOTALL)
_NO_ELEMENTS: Final = ("<!", "<?")
_MULTIPLE: Final = 4


def without_trace_properties(descriptor: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Return the packed MQMD and the body of a message as if it had no trace properties.

    Trace properties are direct elements of the folder `usr` of an MQRFH2 in UTF-8; an element with
    the same name in a group is another property. An MQRFH2 without other content is removed, and
    the structure before it then describes the data after it. Other messages, and messages whose
    headers cannot be parsed, are returned unchanged.
    """
    if not any(f"<{name}".encode() in body for name in TRACE_PROPERTIES):
        return descriptor, body
    try:
        return _remove_trace_properties(descriptor, body)
    except MalformedHeaderError:
        return descriptor, body


def _remove_trace_properties(descriptor: bytes, body: bytes) -> tuple[bytes, bytes]:
    md = MessageDescriptor.decode(descriptor)
    chain = walk(body, len(body), **md.following)
    parts = [body[chain.payload_offset :]]
    described: dict[str, Any] = {}
    for header in reversed(chain.headers):
        as_is = body[header.offset : header.offset + header.length]
        record: Any = header.record
        if isinstance(record, RulesHeader2) and record.name_value_ccsid == UTF_8:
            folders = tuple(each for each in map(_clean_folder, record.folders) if each)
            if not folders and record.folders and not record.flags:
                described = described or _description(record)
                continue
            if folders != record.folders:
                record = replace(record, folders=folders)
        if described or record is not header.record:
            if _write_header(header, header.record) != as_is:
                raise MalformedHeaderError(header.structure, 0, "all of it to be read", "a part")
            as_is = _write_header(header, replace(record, **described))
        parts.append(as_is)
        described = {}
    if described:
        descriptor = replace(md, **described).encode()
    return descriptor, b"".join(reversed(parts))


def _clean_folder(folder: str | bytes) -> str | bytes:
    """Return a folder without trace properties, or "" if nothing else is in it."""
    found = _USR.fullmatch(folder) if isinstance(folder, str) else None
    if found is None:
        return folder
    begin, content, end = found.groups()
    kept = _remove_trace_elements(content)
    if kept == content:
        return folder
    if begin == "<usr>" and not kept:
        return ""
    whole = f"{begin}{kept}{end}"
    return whole + " " * (-len(whole.encode("utf-8", "surrogateescape")) % _MULTIPLE)


def _remove_trace_elements(content: str) -> str:
    """Return the content of a folder without its direct elements that are trace properties.

    Content with comments, or with anything that is not part of a property, is returned unchanged.
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


def _write_header(header: ChainedHeader, record: Any) -> bytes:
    if isinstance(record, DeadLetterHeader | RulesHeader2):
        return record.encode(encoding=header.encoding, ccsid=header.ccsid)
    raise MalformedHeaderError(header.structure, 0, "MQDLH or MQRFH2", header.structure)
