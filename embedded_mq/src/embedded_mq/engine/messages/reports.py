"""Put reports on the arrival, the delivery and the expiry of messages.

IBM MQ docs, the fields "Report" and "Feedback" of MQMD, "Structure of the report field", and
"MaxUncommittedMsgs", which says that reports on arrival and delivery belong to the unit of work of
the message and reports on expiry to none. Channels make exception reports; the queue manager does
not, because a put reports its failure by a reason code.

docs/reference/mqi-coverage.md names the statements of IBM's documentation that could not be checked
for this module.
"""

import time
from dataclasses import dataclass

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name, text
from embedded_mq.engine.connection import Connection, ResolvedQueue
from embedded_mq.engine.failures import CallFailedError, log
from embedded_mq.engine.messages import groups, placing, transmission
from embedded_mq.engine.messages.context import set_queue_manager_origin
from embedded_mq.engine.messages.placing import Content
from embedded_mq.engine.messages.property_values import pack_properties, unpack_properties
from embedded_mq.engine.objects.resolution import resolve
from embedded_mq.engine.unit_of_work import Message
from embedded_mq.headers import mqmde
from embedded_mq.headers.mq_headers import (
    MQFMT_DEAD_LETTER_HEADER,
    MQFMT_XMIT_Q_HEADER,
    XQH_LENGTH,
    length_of_headers,
)
from embedded_mq.headers.rfh2 import Description
from embedded_mq.storage.catalogue import Catalogue
from embedded_mq.storage.schema import REPORT
from embedded_mq.structures import MQDLH, MQMD, MQXQH


@dataclass(frozen=True, slots=True)
class ReportKind:
    """A kind of report: the bits of MQMD.Report that request it, and that request data with it."""

    option: int
    with_data: int
    with_full_data: int
    feedback: int


ARRIVAL = ReportKind(mq.MQRO_COA, mq.MQRO_COA_WITH_DATA, mq.MQRO_COA_WITH_FULL_DATA, mq.MQFB_COA)
DELIVERY = ReportKind(mq.MQRO_COD, mq.MQRO_COD_WITH_DATA, mq.MQRO_COD_WITH_FULL_DATA, mq.MQFB_COD)
EXPIRY = ReportKind(
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
"""The options that request a report, for which the message needs a ReplyToQ."""
KNOWN_OPTIONS = (
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
"""Formats of messages that are not at their destination: they neither arrive nor are delivered."""
REPORT_OF_MQMD = MQMD.reader("report")


def check_report_options(md: MQMD, *, is_remote: bool) -> str:
    """Check MQMD.Report and ReplyToQ of a message that is put; return the name of a warning, or "".

    Unknown options are refused, or accepted with a warning, depending on their part of the field
    (MQRC_REPORT_OPTIONS_ERROR, MQRC_UNKNOWN_REPORT_OPTION).
    """
    if not md.report:
        return ""
    unknown = md.report & ~KNOWN_OPTIONS
    rejected = mq.MQRO_REJECT_UNSUP_MASK
    if not is_remote:
        rejected |= mq.MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
    if unknown & rejected:
        raise CallFailedError("MQRC_REPORT_OPTIONS_ERROR")
    if md.report & REQUESTS and not text(md.reply_to_q):
        raise CallFailedError("MQRC_MISSING_REPLY_TO_Q")
    return "MQRC_UNKNOWN_REPORT_OPTION" if unknown else ""


def is_arrival_reported(resolved: ResolvedQueue, md: MQMD) -> bool:
    """Return whether a put to this queue makes a report on arrival."""
    asked = md.report & ARRIVAL.option and resolved.remote is None
    return bool(asked) and md.format not in NOT_DELIVERED


def report_arrival(
    connection: Connection,
    resolved: ResolvedQueue,
    md: MQMD,
    content: Content,
    *,
    now: float,
    in_unit: bool,
) -> None:
    """Put the report on arrival of a message, in the unit of work of the message if it has one."""
    if is_arrival_reported(resolved, md) and not connection.is_administrative:
        _send_report(connection, ARRIVAL, md, content, now=now, in_unit=in_unit)


def is_delivery_reported(descriptor: bytes) -> bool:
    """Return whether a get of the message with this packed MQMD makes a report on delivery."""
    (report,) = REPORT_OF_MQMD.unpack_from(descriptor)
    if not report & DELIVERY.option:
        return False
    return MQMD.unpack(descriptor).format not in NOT_DELIVERED


def report_delivery(connection: Connection, found: Message, *, in_unit: bool) -> None:
    """Put the report on delivery of a message that was got."""
    if is_delivery_reported(found.descriptor):
        md = MQMD.unpack(found.descriptor)
        now = time.time()
        if found.expires_at is not None:
            md.expiry = max(1, int((found.expires_at - now) * 10))
        content = found.descriptor, found.properties, found.body
        _send_report(connection, DELIVERY, md, content, now=now, in_unit=in_unit)


def report_expiry(connection: Connection, found: Message) -> None:
    """Put the report on expiry of a message, inside a write transaction."""
    (report,) = REPORT_OF_MQMD.unpack_from(found.descriptor)
    if not report & EXPIRY.option:
        return
    descriptor, body = found.descriptor, found.body
    if MQMD.unpack(descriptor).format == MQFMT_XMIT_Q_HEADER and len(body) >= XQH_LENGTH:
        # The message is the one in the envelope (IBM MQ docs, "MQXQH").
        embedded, body = body[MQXQH.length : XQH_LENGTH], body[XQH_LENGTH:]
        descriptor = embedded + descriptor[len(embedded) :]
    content = descriptor, found.properties, body
    md = MQMD.unpack(descriptor)
    _send_report(connection, EXPIRY, md, content, now=time.time(), in_unit=False)


@dataclass(frozen=True, slots=True)
class _Sender:
    """Puts the reports of one call."""

    connection: Connection
    catalogue: Catalogue
    now: float
    in_unit: bool

    def send(self, target: tuple[str, str], md: MQMD, content: Content) -> None:
        """Put a report on its reply queue, else on the dead-letter queue, else discard it."""
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
        resolved = ResolvedQueue(self.catalogue, destination.path, destination.remote)
        if resolved.is_put_inhibited:
            raise CallFailedError("MQRC_PUT_INHIBITED")
        sent, properties, body = content
        if resolved.remote:
            sent, body = transmission.wrap_for_transmission(
                connection, resolved.remote, md, body, self.now
            )
        placing.check_fits(resolved, md, body)
        content = sent, properties, body
        placing.place(
            connection, resolved, md, content, now=self.now, in_unit=self.in_unit, kind=REPORT
        )

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
        letter, ccsid = md.copy(), self.catalogue.number("CCSID")
        letter.encoding, letter.coded_char_set_id = mq.MQENC_NATIVE, ccsid
        letter.format = MQFMT_DEAD_LETTER_HEADER
        body = header.pack() + content[2]
        if letter.msg_flags & groups.SEGMENTS:
            body = mqmde.insert_after_dead_letter_header(letter, body, ccsid)
        self._put((queue, ""), letter, (letter.pack(), content[1], body))


def _send_report(
    connection: Connection,
    kind: ReportKind,
    md: MQMD,
    content: Content,
    *,
    now: float,
    in_unit: bool,
) -> None:
    catalogue = connection.store.catalogue()
    report = _report_descriptor(connection, catalogue.name, kind, md, now)
    copied = mq.MQCOPY_ALL | mq.MQCOPY_REPORT
    properties = pack_properties(
        [held for held in unpack_properties(content[1]) if held.copy_options & copied]
    )
    _Sender(connection, catalogue, now, in_unit).send(
        (text(md.reply_to_q), text(md.reply_to_q_mgr)),
        report,
        (report.pack(), properties, _report_data(kind, md, content[2])),
    )


def _report_descriptor(
    connection: Connection, q_mgr_name: str, kind: ReportKind, md: MQMD, now: float
) -> MQMD:
    """Return the MQMD of a report: the message's MQMD with the requested identifiers and expiry.

    Its identity context is that of the message; its origin context names the queue manager.
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
    set_queue_manager_origin(report, q_mgr_name, now)
    return report


def _report_data(kind: ReportKind, md: MQMD, body: bytes) -> bytes:
    """Return the requested amount of data; MQ headers at its beginning do not count."""
    if md.report & kind.with_full_data == kind.with_full_data:
        return body
    if md.report & kind.with_data != kind.with_data:
        return b""
    described = Description(md.encoding, md.coded_char_set_id, md.format)
    return body[: length_of_headers(described, body) + DATA_LENGTH]
