"""An archived dead letter in; its MQDLH, or the same message without it, out.

Where a message had properties its copy begins with an MQRFH2 that holds them, and the MQDLH stands
behind it (see `mqi.whole`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mqdlq.headers import DeadLetterHeader, MessageDescriptor, RulesHeader2, following_ccsid, walk
from mqdlq.lake.archive import Copy
from mqdlq.mqi.unit_of_work import Delivery
from mqdlq.stages.execute.actions import strip_dead_letter_header


@dataclass(frozen=True, slots=True)
class _Before:
    """The MQRFH2 before an MQDLH, where it is, and how it is written."""

    record: RulesHeader2
    offset: int
    encoding: int
    ccsid: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the MQDLH is, what stands before it, and how it is written itself."""

    offset: int
    before: _Before | None
    encoding: int
    ccsid: int


def dead_letter_header(copy: Copy) -> DeadLetterHeader:
    """Return a copy's MQDLH; raises MalformedHeaderError where it has none."""
    place = _place(copy)
    return DeadLetterHeader.decode(
        copy.body[place.offset :], encoding=place.encoding, ccsid=place.ccsid
    )


def descriptor_of(copy: Copy) -> MessageDescriptor:
    """Return a copy's MQMD; raises MalformedHeaderError."""
    return MessageDescriptor.decode(copy.descriptor)


def delivery_of(copy: Copy, target_q: str, target_q_mgr: str, *, header: bool) -> Delivery:
    """Return what is put where: the message as it was, or without its MQDLH, properties and all.

    What stood before an MQDLH that is taken off takes Format, Encoding and CodedCharSetId from it,
    as with HEADER(NO). Raises MalformedHeaderError where there is no MQDLH that can be read.
    """
    if header:
        return Delivery(target_q, target_q_mgr, copy.body)
    place = _place(copy)
    plain = strip_dead_letter_header(
        copy.body[place.offset :], encoding=place.encoding, ccsid=place.ccsid
    )
    if place.before is None:
        return Delivery(
            target_q,
            target_q_mgr,
            plain.body,
            encoding=plain.encoding,
            coded_char_set_id=plain.coded_char_set_id,
            format=plain.format,
        )
    properties = replace(
        place.before.record,
        encoding=plain.encoding,
        coded_char_set_id=plain.coded_char_set_id,
        format=dead_letter_header(copy).format,
    )
    how = {"encoding": place.before.encoding, "ccsid": place.before.ccsid}
    front = copy.body[: place.before.offset] + properties.encode(**how)
    return Delivery(target_q, target_q_mgr, front + plain.body)


def _place(copy: Copy) -> _Place:
    md = MessageDescriptor.decode(copy.descriptor)
    chain = walk(
        copy.body,
        len(copy.body),
        encoding=md.encoding,
        ccsid=md.coded_char_set_id,
        format=md.format,
    )
    place = _Place(0, None, md.encoding, md.coded_char_set_id)
    for header in chain.headers:
        if not isinstance(header.record, RulesHeader2):
            break
        place = _Place(
            header.offset + header.length,
            _Before(header.record, header.offset, header.encoding, header.ccsid),
            header.record.encoding,
            following_ccsid(header.record.coded_char_set_id, header.ccsid),
        )
    return place
