"""Build the put that one step of a plan requires for one message."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    user = got.descriptor.UserIdentifier if step.put_authority is PutAuthority.CTX else b""
    if step.action is Action.FWD and step.header:
        return Delivery(step.target_q, step.target_q_mgr, got.body, alternate_user=user)
    descriptor = got.descriptor
    plain = strip_dead_letter_header(
        got.body, encoding=descriptor.Encoding, ccsid=descriptor.CodedCharSetId
    )
    return Delivery(
        step.target_q,
        step.target_q_mgr,
        plain.body,
        encoding=plain.encoding,
        coded_char_set_id=plain.coded_char_set_id,
        format=plain.format,
        alternate_user=user,
    )


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


@dataclass(frozen=True, slots=True)
class StrippedMessage:
    """A message without its MQDLH, with the Encoding, CCSID and Format of its remaining body."""

    body: bytes
    encoding: int
    coded_char_set_id: int
    format: bytes

    def __repr__(self) -> str:
        """Show only the length: the body is confidential."""
        return f"<Plain {len(self.body)} bytes>"


def strip_dead_letter_header(body: bytes, *, encoding: int, ccsid: int) -> StrippedMessage:
    """Remove the MQDLH from a message; `encoding` and `ccsid` describe how the MQDLH is written.

    Raises MalformedHeaderError if the message does not begin with an MQDLH.
    """
    header = DeadLetterHeader.decode(body, encoding=encoding, ccsid=ccsid)
    return StrippedMessage(
        body[DLH_LENGTH:],
        header.encoding,
        following_ccsid(header.coded_char_set_id, ccsid),
        _format_after_header(body, header),
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
