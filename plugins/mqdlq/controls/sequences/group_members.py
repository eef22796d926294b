"""The place of a message in its group, and what a group lacks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import (
    DLH_LENGTH,
    MessageDescriptor,
    MessageDescriptorExtension,
    describe,
)
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.reasons import Reason, Why
from mqdlq.structures import MQDLH, MQMD

MQMF_SEGMENT, MQMF_LAST_SEGMENT = 2, 4
MQMF_MSG_IN_GROUP, MQMF_LAST_MSG_IN_GROUP = 8, 16
MAX_RANGES_LISTED = 5

_READ_GROUP: Final = MQMD.reader("group_id", "original_length")
_SEGMENTED: Final = MQMF_SEGMENT | MQMF_LAST_SEGMENT
_TOGETHER: Final = _SEGMENTED | MQMF_MSG_IN_GROUP | MQMF_LAST_MSG_IN_GROUP
_DESTINATION: Final = MQDLH.slice_of("dest_q_name", "dest_q_mgr_name")
_STRUC_IDS: Final = {MQDLH.struc_id, MQDLH.struc_id.decode().encode("cp500")}
_EXTENSIONS: Final = {b"MDE ", "MDE ".encode("cp500")}

GroupKey = tuple[bytes, bytes]
"""A GroupId, and the destination in the MQDLH: two queues have two groups with one GroupId."""


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """The place of a message: its group, its logical message, and its segment.

    `length` is the number of bytes of the segment's data.
    """

    key: GroupKey
    msg_seq_number: int
    offset: int
    flags: int
    length: int

    @property
    def order(self) -> tuple[int, int]:
        """The order of the messages of a group."""
        return self.msg_seq_number, self.offset

    def __str__(self) -> str:
        is_segment = self.flags & _SEGMENTED
        segment = f", Offset {self.offset}" if is_segment else ""
        return f"MsgSeqNumber {self.msg_seq_number}{segment}"


def find_place(browsed: BrowsedMessage) -> GroupPlace | None:
    """Return the place of a message in a group or as a segment, None if it is neither.

    A dead letter that is a segment has these fields in the MQMDE behind its MQDLH (IBM MQ docs,
    "MQMDE - Message descriptor extension").
    """
    fields = _READ_GROUP.unpack_from(browsed.descriptor)
    if not fields[3] & _TOGETHER:
        found = browsed.prefix[DLH_LENGTH : DLH_LENGTH + 4] in _EXTENSIONS
        extension = _find_extension(browsed) if found else None
        if extension is None or not extension[3] & _TOGETHER:
            return None
        fields = extension
    group_id, msg_seq_number, offset, flags, length = fields
    length = browsed.total_length if length < 0 else length
    has_header = browsed.prefix[:4] in _STRUC_IDS
    destination = browsed.prefix[_DESTINATION] if has_header else b""
    return GroupPlace((group_id, destination), msg_seq_number, offset, flags, length)


def _find_extension(browsed: BrowsedMessage) -> tuple[Any, ...] | None:
    md = MessageDescriptor.decode(browsed.descriptor)
    try:
        found = describe(
            browsed.prefix,
            browsed.total_length,
            encoding=md.encoding,
            ccsid=md.coded_char_set_id,
            format=md.format,
        )
    except MalformedHeaderError:
        return None
    for header in found.headers:
        if isinstance(header.record, MessageDescriptorExtension):
            mde = header.record
            length = mde.original_length
            if length < 0:
                length = browsed.total_length - found.payload_offset
            return mde.group_id, mde.msg_seq_number, mde.offset, mde.msg_flags, length
    return None


def find_repeated(places: Sequence[GroupPlace]) -> Reason | None:
    """Return which MsgSeqNumber several messages have that are not segments, or None."""
    numbers = Counter(place.msg_seq_number for place in places if not place.flags & _SEGMENTED)
    repeated = (
        Why.GROUP_ID_REPEATED(messages=many, number=number)
        for number, many in numbers.items()
        if many > 1
    )
    return next(repeated, None)


def find_gaps(places: Sequence[GroupPlace]) -> Reason | None:
    """Return what a group lacks, None if it is complete."""
    by_number: dict[int, list[GroupPlace]] = defaultdict(list)
    for place in places:
        by_number[place.msg_seq_number].append(place)
    numbers = sorted(by_number)
    in_group = any(place.flags & (MQMF_MSG_IN_GROUP | MQMF_LAST_MSG_IN_GROUP) for place in places)
    lasts = [one for one in numbers if _has_flag(by_number[one], MQMF_LAST_MSG_IN_GROUP)]
    if lasts and lasts[0] != numbers[-1]:
        return Why.LAST_IS_NOT_LAST(flagged=lasts[0], highest=numbers[-1])
    gaps = _find_missing(numbers) if in_group else []
    lacks_last = in_group and not lasts
    if gaps:
        listed = [*_list_ranges(gaps), *(["the last"] if lacks_last else [])]
        text = " and ".join(filter(None, [", ".join(listed[:-1]), listed[-1]]))
        missing = sum(last - first + 1 for first, last in gaps) + lacks_last
        return Why.NUMBERS_MISSING(listed=text, missing=missing)
    if lacks_last:
        return Why.LAST_MISSING()
    return next(filter(None, (_find_segment_gap(by_number[one]) for one in numbers)), None)


def _has_flag(places: Iterable[GroupPlace], flag: int) -> bool:
    return any(place.flags & flag for place in places)


def _find_missing(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the ranges of the missing numbers from 1 to the highest one."""
    pairs = zip([0, *numbers], numbers, strict=False)
    return [(before + 1, after - 1) for before, after in pairs if after - before > 1]


def _list_ranges(gaps: Sequence[tuple[int, int]]) -> list[str]:
    """Return the first ranges, and how many more numbers there are."""
    listed = [f"{a}" if a == b else f"{a} to {b}" for a, b in gaps[:MAX_RANGES_LISTED]]
    if more := sum(b - a + 1 for a, b in gaps[MAX_RANGES_LISTED:]):
        listed.append(f"{more} more")
    return listed


def _find_segment_gap(places: Sequence[GroupPlace]) -> Reason | None:
    """Return what the segments of one logical message lack, or have twice, or None."""
    number = places[0].msg_seq_number
    if not _has_flag(places, _SEGMENTED):
        return None
    expected = 0
    ordered = sorted(places, key=lambda place: place.offset)
    for place in ordered:
        if place.offset > expected:
            return Why.SEGMENT_MISSING(number=number, offset=expected)
        if place.offset < expected:
            return Why.SEGMENTS_OVERLAP(number=number, offset=place.offset)
        expected = place.offset + max(place.length, 0)
    is_whole = ordered[-1].flags & MQMF_LAST_SEGMENT
    return None if is_whole else Why.LAST_SEGMENT_MISSING(number=number)
