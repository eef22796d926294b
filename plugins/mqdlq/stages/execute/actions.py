"""Build the put that one step of a plan requires for one message."""

from __future__ import annotations

from dataclasses import replace

from mqdlq.controls.repair import Repair
from mqdlq.headers import DLH_LENGTH, DeadLetterHeader, MessageDescriptor, following_ccsid
from mqdlq.model import Action, PutAuthority, Step
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.mqi.unit_of_work import Delivery, GotMessage
from mqdlq.structures import MQDLH

_FORMAT = MQDLH.slice_of("format")


def build_delivery(step: Step, got: GotMessage) -> Delivery:
    """Return the put that a RETRY or FWD requires.

    If the MQDLH is removed, the MQMD takes Format, Encoding and CodedCharSetId from it; otherwise
    the receiver would read the body as a dead-letter header. Nothing else changes (IBM MQ docs,
    "Dead-letter queue processing"). The body is never converted.
    """
    descriptor, to = got.descriptor, (step.target_q, step.target_q_mgr)
    user = descriptor.UserIdentifier if step.put_authority is PutAuthority.CTX else b""
    if step.action is Action.FWD and step.header:
        return Delivery(*to, got.body, alternate_user=user)
    plain = strip_dead_letter_header(*to, got.body, descriptor.Encoding, descriptor.CodedCharSetId)
    return replace(plain, alternate_user=user)


def repair_delivery(delivery: Delivery, repair: Repair, got: GotMessage) -> Delivery:
    """Return the put with the Format and CodedCharSetId of a repair; its body is the same."""
    described = delivery
    if described.format is None:  # the message has no MQDLH
        descriptor = got.descriptor
        described = replace(
            delivery,
            encoding=descriptor.Encoding,
            coded_char_set_id=descriptor.CodedCharSetId,
            format=descriptor.Format,
        )
    if repair.coded_char_set_id is not None:
        described = replace(described, coded_char_set_id=repair.coded_char_set_id)
    if repair.format is None:
        return described
    return replace(described, format=repair.format.ljust(8).encode("ascii"))


def strip_dead_letter_header(
    target_q: str, target_q_mgr: str, body: bytes, encoding: int, ccsid: int
) -> Delivery:
    """Return the put of a message without its MQDLH, which is written in `encoding` and `ccsid`.

    Raises MalformedHeaderError if the message does not begin with an MQDLH.
    """
    header = DeadLetterHeader.decode(body, encoding=encoding, ccsid=ccsid)
    return Delivery(
        target_q,
        target_q_mgr,
        body[DLH_LENGTH:],
        encoding=header.encoding,
        coded_char_set_id=following_ccsid(header.coded_char_set_id, ccsid),
        format=_format_after_header(body, header),
    )


def _format_after_header(body: bytes, header: DeadLetterHeader) -> bytes:
    """Return the MQDLH's Format for an MQMD, which is in the connection's character set.

    The bytes are copied from the header unchanged, unless the header is in EBCDIC.
    """
    if body.startswith(MQDLH.struc_id):
        return body[_FORMAT]
    return header.format.ljust(8).encode("latin-1", "replace")


def decode_dead_letter_header(browsed: BrowsedMessage) -> DeadLetterHeader:
    """Decode the MQDLH of a browsed message; raises MalformedHeaderError."""
    md = MessageDescriptor.decode(browsed.descriptor)
    return DeadLetterHeader.decode(browsed.prefix, encoding=md.encoding, ccsid=md.coded_char_set_id)


def repeats_recorded_failure(header: DeadLetterHeader, step: Step, reason: int) -> bool:
    """Return whether a put failed for the reason and queue that the MQDLH already records.

    IBM's handler logs nothing in this case, but the attempt counts.
    """
    return (
        reason == header.reason
        and step.target_q == header.dest_q_name
        and step.target_q_mgr == header.dest_q_mgr_name
    )
