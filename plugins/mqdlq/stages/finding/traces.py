"""Find the trace of a message by its property `traceparent`, and the link to a tracing tool.

Snapshots keep no message properties. Only an archive copy has them, in an MQRFH2 of its body. The
form of `traceparent` is that of the W3C recommendation "Trace Context".
"""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import urlsplit

from mqdlq.errors import HomeError, MalformedHeaderError
from mqdlq.headers import MessageDescriptor
from mqdlq.headers.chain import walk
from mqdlq.headers.rfh import RulesHeader2

VARIABLE: Final = "MQDLQ_TRACE_URL"
PLACEHOLDER: Final = "{trace_id}"
_USR: Final = re.compile(r"<usr(?:\s[^<>]*)?>(.*)</usr>", re.DOTALL)
_PROPERTY: Final = re.compile(r"<traceparent(?:\s[^<>]*)?>\s*([^<>]{55})\s*</traceparent>")
_FORM: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


def traceparent_of(descriptor: bytes, body: bytes) -> str:
    """Return the `traceparent` in the folder `usr` of a message, "" if it has no valid one."""
    try:
        md = MessageDescriptor.decode(descriptor)
        chain = walk(
            body, len(body), encoding=md.encoding, ccsid=md.coded_char_set_id, format=md.format
        )
    except MalformedHeaderError:
        return ""
    for header in chain.headers:
        if isinstance(header.record, RulesHeader2):
            for folder in header.record.folders:
                found = _of_folder(folder) if isinstance(folder, str) else ""
                if found:
                    return found
    return ""


def _of_folder(folder: str) -> str:
    usr = _USR.search(folder)
    found = _PROPERTY.search(usr.group(1)) if usr else None
    return found.group(1) if found and _FORM.fullmatch(found.group(1)) else ""


def trace_link(traceparent: str) -> str:
    """Return the address of a trace in the tracing tool, "" if none is configured.

    `MQDLQ_TRACE_URL` is its address, with `{trace_id}` where the id belongs. Raises HomeError if
    it is not such an address.
    """
    template = os.environ.get(VARIABLE, "")
    found = _FORM.fullmatch(traceparent)
    if not template or found is None:
        return ""
    parts = urlsplit(template)
    rest = template.replace(PLACEHOLDER, "", 1)
    if parts.scheme not in {"http", "https"} or not parts.hostname or set("{}") & set(rest):
        raise _not_an_address()
    if PLACEHOLDER not in template or PLACEHOLDER in parts.netloc:
        raise _not_an_address()
    return template.replace(PLACEHOLDER, found.group(1))


def _not_an_address() -> HomeError:
    return HomeError(
        "MQDLQ-976",
        "MQDLQ_TRACE_URL is not the address of a tracing tool; expected http or https, and"
        " {trace_id} once after the host, such as https://traces.example.com/trace/{trace_id}",
    )
