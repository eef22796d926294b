"""One step of a plan on one message: its MQMD and body in, what to put where out."""

from __future__ import annotations

from dataclasses import dataclass

from mqdlq.headers import DLH_LENGTH, DeadLetterHeader, MessageDescriptor, following_ccsid
from mqdlq.model import Action, PutAuthority, Step
from mqdlq.mqi.browse import Browsed
from mqdlq.mqi.unit_of_work import Delivery, Got
from mqdlq.structures import MQDLH

_FORMAT = MQDLH.slice_of("format")


def delivery(step: Step, got: Got) -> Delivery:
    """Return the put that a RETRY or FWD asks for.

    Without the MQDLH the MQMD takes Format, Encoding and CodedCharSetId from it, else the
    receiver would read the body as a dead-letter header; nothing else changes (IBM MQ docs,
    "Dead-letter queue processing"). The body is never converted.
    """
    user = got.descriptor.UserIdentifier if step.put_authority is PutAuthority.CTX else b""
    if step.action is Action.FWD and step.header:
        return Delivery(step.target_q, step.target_q_mgr, got.body, alternate_user=user)
    descriptor = got.descriptor
    plain = without_header(got.body, encoding=descriptor.Encoding, ccsid=descriptor.CodedCharSetId)
    return Delivery(
        step.target_q,
        step.target_q_mgr,
        plain.body,
        encoding=plain.encoding,
        coded_char_set_id=plain.coded_char_set_id,
        format=plain.format,
        alternate_user=user,
    )


@dataclass(frozen=True, slots=True)
class Plain:
    """A message without its MQDLH, and what the header before it must say of it then."""

    body: bytes
    encoding: int
    coded_char_set_id: int
    format: bytes

    def __repr__(self) -> str:
        """Show the length only: the body is a customer's."""
        return f"<Plain {len(self.body)} bytes>"


def without_header(body: bytes, *, encoding: int, ccsid: int) -> Plain:
    """Take the MQDLH off a message; `encoding` and `ccsid` are those it is written in.

    Raises MalformedHeaderError where the message does not begin with one.
    """
    header = DeadLetterHeader.decode(body, encoding=encoding, ccsid=ccsid)
    return Plain(
        body[DLH_LENGTH:],
        header.encoding,
        following_ccsid(header.coded_char_set_id, ccsid),
        _format(body, header),
    )


def _format(body: bytes, header: DeadLetterHeader) -> bytes:
    """Return the MQDLH's Format for an MQMD, which is in the connection's character set.

    The bytes are those of the header itself, whatever they are, unless it is in EBCDIC.
    """
    if body.startswith(MQDLH.struc_id):
        return body[_FORMAT]
    return header.format.ljust(8).encode("latin-1", "replace")


def header_of(browsed: Browsed) -> DeadLetterHeader:
    """Decode the MQDLH of a message as it was browsed; raises MalformedHeaderError."""
    md = MessageDescriptor.decode(browsed.descriptor)
    return DeadLetterHeader.decode(browsed.prefix, encoding=md.encoding, ccsid=md.coded_char_set_id)


def is_old_news(header: DeadLetterHeader, step: Step, reason: int) -> bool:
    """Whether a put failed just as the MQDLH says it had before: same reason, same queue.

    IBM's handler writes no message then; it is still an attempt.
    """
    return (
        reason == header.reason
        and step.target_q == header.dest_q_name
        and step.target_q_mgr == header.dest_q_mgr_name
    )
