"""The reports a queue manager makes on a message: its arrival, its delivery, its expiry.

IBM MQ docs, the fields "Report" and "Feedback" of MQMD, "Structure of the report field", and
"MaxUncommittedMsgs", which says that reports on arrival and delivery belong to the unit of work of
the message and those on expiry to none. Reports on exceptions are made by channels, not by the
queue manager that a put can tell of the failure by its reason code.

What IBM's documentation says of these fields and could not be read again when this was written is
named in docs/reference/mqi-coverage.md.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection, Way
from embedded_mq.engine.failures import CallFailedError, log
from embedded_mq.engine.messages import groups, placing, transmission
from embedded_mq.engine.messages.context import put_by_queue_manager
from embedded_mq.engine.messages.placing import Content
from embedded_mq.engine.messages.property_values import packed, unpacked
from embedded_mq.engine.objects.resolution import resolve
from embedded_mq.engine.unit_of_work import Message
from embedded_mq.headers import mqmde
from embedded_mq.headers.mq_headers import (
    MQFMT_DEAD_LETTER_HEADER,
    MQFMT_XMIT_Q_HEADER,
    XQH_LENGTH,
    length_in_front,
)
from embedded_mq.headers.rfh2 import Description
from embedded_mq.storage.catalogue import Catalogue
from embedded_mq.storage.schema import REPORT
from embedded_mq.structures import MQDLH, MQMD, MQXQH, object_name, text


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of report: the bit of MQMD.Report that asks for it, and those that ask for data."""

    asked: int
    with_data: int
    with_full_data: int
    feedback: int


ARRIVAL = Kind(mq.MQRO_COA, mq.MQRO_COA_WITH_DATA, mq.MQRO_COA_WITH_FULL_DATA, mq.MQFB_COA)
DELIVERY = Kind(mq.MQRO_COD, mq.MQRO_COD_WITH_DATA, mq.MQRO_COD_WITH_FULL_DATA, mq.MQFB_COD)
EXPIRY = Kind(
    mq.MQRO_EXPIRATION,
    mq.MQRO_EXPIRATION_WITH_DATA,
    mq.MQRO_EXPIRATION_WITH_FULL_DATA,
    mq.MQFB_EXPIRATION,
)
REQUESTS = (
    mq.MQRO_EXCEPTION_WITH_FULL_DATA
    | mq.MQRO_EXPIRATION_WITH_FULL_DATA
    | mq.MQRO_COA_WITH_FULL_DATA
    | mq.MQRO_COD_WITH_FULL_DATA
    | mq.MQRO_PAN
    | mq.MQRO_NAN
)
"""The options that ask somebody for a report, who then needs to know where to put it."""
KNOWN = (
    REQUESTS
    | mq.MQRO_ACTIVITY
    | mq.MQRO_PASS_CORREL_ID
    | mq.MQRO_PASS_MSG_ID
    | mq.MQRO_PASS_DISCARD_AND_EXPIRY
    | mq.MQRO_DISCARD_MSG
)
DATA_LENGTH = 100
EXPIRY_OF_A_REPORT_ON_EXPIRY = 600
NOT_DELIVERED = frozenset({MQFMT_DEAD_LETTER_HEADER, MQFMT_XMIT_Q_HEADER})
"""Formats of messages that are not at their destination: these neither arrive nor are delivered."""
REPORT_OF_MQMD = MQMD.reader("report")


def check(md: MQMD, *, is_remote: bool) -> str:
    """Check MQMD.Report and ReplyToQ of a message that is put; return why to warn, or "".

    Options that are not known are refused, or accepted with a warning, by the part of the field
    they stand in (MQRC_REPORT_OPTIONS_ERROR, MQRC_UNKNOWN_REPORT_OPTION).
    """
    if not md.report:
        return ""
    unknown = md.report & ~KNOWN
    rejected = mq.MQRO_REJECT_UNSUP_MASK
    if not is_remote:
        rejected |= mq.MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
    if unknown & rejected:
        raise CallFailedError("MQRC_REPORT_OPTIONS_ERROR")
    if md.report & REQUESTS and not text(md.reply_to_q):
        raise CallFailedError("MQRC_MISSING_REPLY_TO_Q")
    return "MQRC_UNKNOWN_REPORT_OPTION" if unknown else ""


def arrives(way: Way, md: MQMD) -> bool:
    """Whether a report is to be made when the message is put there."""
    asked = md.report & ARRIVAL.asked and way.remote is None
    return bool(asked) and md.format not in NOT_DELIVERED


def arrived(
    connection: Connection, way: Way, md: MQMD, content: Content, *, now: float, in_unit: bool
) -> None:
    """Report that a message is on its destination queue, in its unit of work if it is in one."""
    if arrives(way, md) and not connection.is_administrative:
        _report(connection, ARRIVAL, md, content, now=now, in_unit=in_unit)


def is_delivered(descriptor: bytes) -> bool:
    """Whether a report is to be made when the message with this packed MQMD is got."""
    (report,) = REPORT_OF_MQMD.unpack_from(descriptor)
    if not report & DELIVERY.asked:
        return False
    return MQMD.unpack(descriptor).format not in NOT_DELIVERED


def delivered(connection: Connection, found: Message, *, in_unit: bool) -> None:
    """Report that a message was got, and will not be there any more."""
    if is_delivered(found.descriptor):
        md = MQMD.unpack(found.descriptor)
        now = time.time()
        if found.expires_at is not None:
            md.expiry = max(1, int((found.expires_at - now) * 10))
        content = found.descriptor, found.properties, found.body
        _report(connection, DELIVERY, md, content, now=now, in_unit=in_unit)


def expired(connection: Connection, found: Message) -> None:
    """Report that a message is discarded since its time is over, while writing."""
    (report,) = REPORT_OF_MQMD.unpack_from(found.descriptor)
    if not report & EXPIRY.asked:
        return
    descriptor, body = found.descriptor, found.body
    if MQMD.unpack(descriptor).format == MQFMT_XMIT_Q_HEADER and len(body) >= XQH_LENGTH:
        # The message is the one in the envelope (IBM MQ docs, "MQXQH").
        embedded, body = body[MQXQH.length : XQH_LENGTH], body[XQH_LENGTH:]
        descriptor = embedded + descriptor[len(embedded) :]
    content = descriptor, found.properties, body
    md = MQMD.unpack(descriptor)
    _report(connection, EXPIRY, md, content, now=time.time(), in_unit=False)


@dataclass(frozen=True, slots=True)
class _Sender:
    """What the reports of one call have in common."""

    connection: Connection
    catalogue: Catalogue
    now: float
    in_unit: bool

    def send(self, target: tuple[str, str], md: MQMD, content: Content) -> None:
        """Put a report where it is wanted, else on the dead-letter queue, else discard it."""
        try:
            self._put(target, md, content)
        except CallFailedError as failure:
            if md.report & mq.MQRO_DISCARD_MSG:
                log.warning("a report for queue %s is discarded: %s", target[0], failure)
                return
            try:
                self._put_dead_letter(target, md, content, failure.reason)
            except CallFailedError as error:
                log.warning(
                    "a report for queue %s is discarded: %s, and %s on the dead-letter queue",
                    target[0],
                    failure,
                    error,
                )

    def _put(self, target: tuple[str, str], md: MQMD, content: Content) -> None:
        connection = self.connection
        destination = resolve(self.catalogue, *target)
        if destination.queue.type == mq.MQQT_MODEL:
            raise CallFailedError("MQRC_Q_TYPE_ERROR")
        way = Way(self.catalogue, destination.path, destination.remote)
        if way.is_put_inhibited:
            raise CallFailedError("MQRC_PUT_INHIBITED")
        sent, properties, body = content
        if way.remote:
            sent, body = transmission.enveloped(connection, way.remote, md, body, self.now)
        placing.check_fits(way, md, body)
        content = sent, properties, body
        placing.place(connection, way, md, content, now=self.now, in_unit=self.in_unit, kind=REPORT)

    def _put_dead_letter(
        self, target: tuple[str, str], md: MQMD, content: Content, reason: int
    ) -> None:
        queue = str(self.catalogue.queue_manager["DEADQ"])
        if not queue:
            raise CallFailedError("MQRC_UNKNOWN_OBJECT_NAME")
        name, q_mgr_name = target
        header = MQDLH(
            reason=reason,
            dest_q_name=object_name(name),
            dest_q_mgr_name=object_name(q_mgr_name or self.catalogue.name),
            encoding=md.encoding,
            coded_char_set_id=md.coded_char_set_id,
            format=md.format,
            put_appl_type=md.put_appl_type,
            put_appl_name=md.put_appl_name,
            put_date=md.put_date,
            put_time=md.put_time,
        )
        letter, ccsid = md.copy(), self.catalogue.limit("CCSID")
        letter.encoding, letter.coded_char_set_id = mq.MQENC_NATIVE, ccsid
        letter.format = MQFMT_DEAD_LETTER_HEADER
        body = header.pack() + content[2]
        if letter.msg_flags & groups.SEGMENTS:
            body = mqmde.made_behind_dead_letter_header(letter, body, ccsid)
        self._put((queue, ""), letter, (letter.pack(), content[1], body))


def _report(
    connection: Connection, kind: Kind, md: MQMD, content: Content, *, now: float, in_unit: bool
) -> None:
    catalogue = connection.store.catalogue()
    report = _descriptor(connection, catalogue.name, kind, md, now)
    copied = mq.MQCOPY_ALL | mq.MQCOPY_REPORT
    properties = packed([held for held in unpacked(content[1]) if held.copy_options & copied])
    _Sender(connection, catalogue, now, in_unit).send(
        (text(md.reply_to_q), text(md.reply_to_q_mgr)),
        report,
        (report.pack(), properties, _data(kind, md, content[2])),
    )


def _descriptor(connection: Connection, q_mgr_name: str, kind: Kind, md: MQMD, now: float) -> MQMD:
    """Return the MQMD of a report: that of the message, but for what it asks for and who puts it.

    Its identity context is that of the message, its origin the queue manager.
    """
    report = md.copy()
    asked, report.version = md.report, mq.MQMD_VERSION_2
    inherits = asked & mq.MQRO_PASS_DISCARD_AND_EXPIRY
    report.report = asked & mq.MQRO_DISCARD_MSG if inherits else mq.MQRO_NONE
    report.msg_type, report.feedback = mq.MQMT_REPORT, kind.feedback
    if not inherits:
        report.expiry = mq.MQEI_UNLIMITED
    elif kind is EXPIRY:
        report.expiry = EXPIRY_OF_A_REPORT_ON_EXPIRY
    if not asked & mq.MQRO_PASS_MSG_ID:
        report.msg_id = connection.new_id()
    if not asked & mq.MQRO_PASS_CORREL_ID:
        report.correl_id = md.msg_id
    report.backout_count = 0
    report.reply_to_q, report.reply_to_q_mgr = object_name(""), object_name(q_mgr_name)
    put_by_queue_manager(report, q_mgr_name, now)
    return report


def _data(kind: Kind, md: MQMD, body: bytes) -> bytes:
    """Return as much of the data as is asked for; MQ headers in front of it do not count."""
    if md.report & kind.with_full_data == kind.with_full_data:
        return body
    if md.report & kind.with_data != kind.with_data:
        return b""
    described = Description(md.encoding, md.coded_char_set_id, md.format)
    return body[: length_in_front(described, body) + DATA_LENGTH]
