"""Decode the MQDLH of an archived dead letter, or build a delivery without it.

If a message had properties, its copy begins with an MQRFH2 that holds them, and the MQDLH follows
(see `mqi.archived_messages`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mqdlq.headers import DeadLetterHeader, MessageDescriptor, RulesHeader2, following_ccsid, walk
from mqdlq.lake.archive import Copy
from mqdlq.mqi.unit_of_work import Delivery
from mqdlq.stages.execute.actions import strip_dead_letter_header


@dataclass(frozen=True, slots=True)
class _PrecedingRfh2:
    """The MQRFH2 before an MQDLH: its position, and how it is written."""

    record: RulesHeader2
    offset: int
    encoding: int
    ccsid: int


@dataclass(frozen=True, slots=True)
class _HeaderLocation:
    """The position of the MQDLH, the MQRFH2 before it, and how the MQDLH is written."""

    offset: int
    preceding: _PrecedingRfh2 | None
    encoding: int
    ccsid: int


def decode_copied_header(copy: Copy) -> DeadLetterHeader:
    """Return the MQDLH of a copy; raises MalformedHeaderError if it has none."""
    place = _locate_header(copy)
    return DeadLetterHeader.decode(
        copy.body[place.offset :], encoding=place.encoding, ccsid=place.ccsid
    )


def decode_copied_descriptor(copy: Copy) -> MessageDescriptor:
    """Return the MQMD of a copy; raises MalformedHeaderError."""
    return MessageDescriptor.decode(copy.descriptor)


def build_delivery(copy: Copy, target_q: str, target_q_mgr: str, *, header: bool) -> Delivery:
    """Return the delivery of a copy: unchanged, or without its MQDLH but with its properties.

    If the MQDLH is removed, the header before it takes Format, Encoding and CodedCharSetId from it,
    as with HEADER(NO). Raises MalformedHeaderError if there is no readable MQDLH.
    """
    if header:
        return Delivery(target_q, target_q_mgr, copy.body)
    place = _locate_header(copy)
    plain = strip_dead_letter_header(
        copy.body[place.offset :], encoding=place.encoding, ccsid=place.ccsid
    )
    if place.preceding is None:
        return Delivery(
            target_q,
            target_q_mgr,
            plain.body,
            encoding=plain.encoding,
            coded_char_set_id=plain.coded_char_set_id,
            format=plain.format,
        )
    properties = replace(
        place.preceding.record,
        encoding=plain.encoding,
        coded_char_set_id=plain.coded_char_set_id,
        format=decode_copied_header(copy).format,
    )
    how = {"encoding": place.preceding.encoding, "ccsid": place.preceding.ccsid}
    front = copy.body[: place.preceding.offset] + properties.encode(**how)
    return Delivery(target_q, target_q_mgr, front + plain.body)


def _locate_header(copy: Copy) -> _HeaderLocation:
    md = MessageDescriptor.decode(copy.descriptor)
    chain = walk(
        copy.body,
        len(copy.body),
        encoding=md.encoding,
        ccsid=md.coded_char_set_id,
        format=md.format,
    )
    place = _HeaderLocation(0, None, md.encoding, md.coded_char_set_id)
    for header in chain.headers:
        if not isinstance(header.record, RulesHeader2):
            break
        place = _HeaderLocation(
            header.offset + header.length,
            _PrecedingRfh2(header.record, header.offset, header.encoding, header.ccsid),
            header.record.encoding,
            following_ccsid(header.record.coded_char_set_id, header.ccsid),
        )
    return place
