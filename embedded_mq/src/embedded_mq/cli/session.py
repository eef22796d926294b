"""A command's connection to a queue manager, without a client library."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name
from embedded_mq.clients import calls, ibmmqc
from embedded_mq.constants import MQRC, reason_text
from embedded_mq.engine.failures import MQCC_OK
from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.headers.mq_headers import MQFMT_DEAD_LETTER_HEADER
from embedded_mq.structures import MQDLH, MQGMO, MQMD, MQOD, MQPMO

ANY_LENGTH = 2**31 - 1
MQMT_DATAGRAM = 8
MQAT_UNIX = 6
CCSID = 819
BINARY = ("msg_id", "correl_id", "accounting_token", "group_id")


class Session:
    """A connection whose failing calls raise EmbeddedQueueManagerError with verb and reason."""

    def __init__(self, hconn: int) -> None:
        """Use a connection's handle."""
        self._hconn = hconn

    def put(self, queue: str, body: bytes, message_format: bytes, ccsid: int) -> bytes:
        """Put one message outside a unit of work, and return its MsgId."""
        md, pmo = MQMD.blank(), MQPMO.blank()
        md.struc_id, md.version, md.msg_type = b"MD  ", mq.MQMD_VERSION_1, MQMT_DATAGRAM
        md.expiry, md.encoding, md.coded_char_set_id = mq.MQEI_UNLIMITED, mq.MQENC_NATIVE, ccsid
        md.format, md.priority = message_format, mq.MQPRI_PRIORITY_AS_Q_DEF
        md.persistence = mq.MQPER_PERSISTENCE_AS_Q_DEF
        pmo.struc_id, pmo.version, pmo.options = b"PMO ", 1, mq.MQPMO_NO_SYNCPOINT
        with self._opened(queue, mq.MQOO_OUTPUT) as hobj:
            put, _, *codes = calls.MQPUT(self._hconn, hobj, md.pack(), pmo.pack(), body)
            check("MQPUT", f"queue {queue}", *codes)
        return MQMD.unpack(put).msg_id

    def browse(self, queue: str) -> Iterator[tuple[dict[str, str | int], bytes]]:
        """Yield the descriptor of each message, under IBM's names, and its body."""
        md, gmo = MQMD.blank(), MQGMO.blank()
        md.struc_id, md.version = b"MD  ", mq.MQMD_VERSION_2
        gmo.struc_id, gmo.version = b"GMO ", 2
        gmo.options = mq.MQGMO_BROWSE_NEXT | mq.MQGMO_NO_PROPERTIES
        with self._opened(queue, mq.MQOO_BROWSE) as hobj:
            while True:
                body, found, _, _, *codes = calls.MQGET(
                    self._hconn, hobj, md.pack(), gmo.pack(), ANY_LENGTH
                )
                if codes[1] == MQRC["MQRC_NO_MSG_AVAILABLE"]:
                    return
                check("MQGET", f"queue {queue}", *codes)
                yield _fields(MQMD.unpack(found)), body

    def dead_letter(self, queue: str, queue_manager: str, reason: int) -> int:
        """Move all messages of a queue to the dead-letter queue, each behind an MQDLH.

        The messages keep their context and identifiers, and their properties become an MQRFH2.
        Each is moved in its own unit of work. Returns the number of messages.
        """
        if (dlq := self._dead_letter_queue(queue_manager)) == queue:
            raise EmbeddedQueueManagerError(
                f"{queue} is the dead-letter queue of {queue_manager}; name an application's queue"
            )
        moved = 0
        with self._opened(queue, mq.MQOO_INPUT_AS_Q_DEF | mq.MQOO_SAVE_ALL_CONTEXT) as hobj:
            while (got := self._get(queue, hobj)) is not None:
                md, body = got
                header = _dead_letter_header(md, queue, queue_manager, reason)
                md.format, md.encoding = MQFMT_DEAD_LETTER_HEADER, mq.MQENC_NATIVE
                md.coded_char_set_id = CCSID
                self._put_with_context_of(hobj, dlq, md, header.pack() + body)
                check("MQCMIT", queue_manager, *calls.MQCMIT(self._hconn))
                moved += 1
        return moved

    def _dead_letter_queue(self, queue_manager: str) -> str:
        with self._opened("", mq.MQOO_INQUIRE, mq.MQOT_Q_MGR) as hobj:
            selectors = [mq.MQCA_DEAD_LETTER_Q_NAME]
            _, name, *codes = ibmmqc.MQINQ(self._hconn, hobj, selectors, [])
            check("MQINQ", f"queue manager {queue_manager}", *codes)
        if not (dlq := name.decode("latin-1").rstrip(" \0")):
            raise EmbeddedQueueManagerError(
                f"queue manager {queue_manager} has no dead-letter queue;"
                " name one with ALTER QMGR DEADQ(…)"
            )
        return dlq

    def _get(self, queue: str, hobj: int) -> tuple[MQMD, bytes] | None:
        """Get the next message in a unit of work; None if the queue is empty."""
        md, gmo = MQMD.blank(), MQGMO.blank()
        md.struc_id, md.version = b"MD  ", mq.MQMD_VERSION_2
        gmo.struc_id, gmo.version = b"GMO ", 2
        gmo.options = mq.MQGMO_SYNCPOINT | mq.MQGMO_PROPERTIES_FORCE_MQRFH2
        body, found, _, _, *codes = calls.MQGET(
            self._hconn, hobj, md.pack(), gmo.pack(), ANY_LENGTH
        )
        if codes[1] == MQRC["MQRC_NO_MSG_AVAILABLE"]:
            return None
        check("MQGET", f"queue {queue}", *codes)
        return MQMD.unpack(found), body

    def _put_with_context_of(self, source: int, queue: str, md: MQMD, body: bytes) -> None:
        pmo = MQPMO.blank()
        pmo.struc_id, pmo.version, pmo.context = b"PMO ", 1, source
        pmo.options = mq.MQPMO_SYNCPOINT | mq.MQPMO_PASS_ALL_CONTEXT
        with self._opened(queue, mq.MQOO_OUTPUT | mq.MQOO_PASS_ALL_CONTEXT) as hobj:
            _, _, *codes = calls.MQPUT(self._hconn, hobj, md.pack(), pmo.pack(), body)
            check("MQPUT", f"queue {queue}", *codes)

    def depth(self, queue: str) -> int:
        """Return a queue's CURDEPTH."""
        with self._opened(queue, mq.MQOO_INQUIRE) as hobj:
            numbers, _, *codes = ibmmqc.MQINQ(self._hconn, hobj, [mq.MQIA_CURRENT_Q_DEPTH], [])
            check("MQINQ", f"queue {queue}", *codes)
        return numbers[0]

    @contextmanager
    def _opened(self, queue: str, options: int, object_type: int = mq.MQOT_Q) -> Iterator[int]:
        od = MQOD.blank()
        od.struc_id, od.version, od.object_type = b"OD  ", 1, object_type
        od.object_name = object_name(queue)
        hobj, _, *codes = calls.MQOPEN(self._hconn, od.pack(), options)
        check("MQOPEN", f"queue {queue}", *codes)
        try:
            yield hobj
        finally:
            calls.MQCLOSE(self._hconn, hobj, 0)


def _dead_letter_header(md: MQMD, queue: str, queue_manager: str, reason: int) -> MQDLH:
    now = time.gmtime()
    return MQDLH(
        reason=reason,
        dest_q_name=object_name(queue),
        dest_q_mgr_name=object_name(queue_manager),
        encoding=md.encoding,
        coded_char_set_id=md.coded_char_set_id,
        format=md.format,
        put_appl_type=MQAT_UNIX,
        put_appl_name=b"embedded-mq".ljust(28),
        put_date=time.strftime("%Y%m%d", now).encode(),
        put_time=time.strftime("%H%M%S00", now).encode(),
    )


def _fields(md: MQMD) -> dict[str, str | int]:
    return {
        field.ibm_name: _format_value(name, getattr(md, name))
        for name, field in MQMD.layout.items()
    }


def _format_value(name: str, value: bytes | int) -> str | int:
    """Return text without trailing blanks, and binary fields in hexadecimal digits."""
    if isinstance(value, int):
        return value
    return value.hex() if name in BINARY else value.decode("latin-1").rstrip(" ")


@contextmanager
def open_session(name: str) -> Iterator[Session]:
    """Connect as the user of this process, and disconnect when the block ends."""
    hconn, *codes = calls.connect(name, "MQCONNX", options=mq.MQCNO_HANDLE_SHARE_BLOCK)
    check("MQCONN", f"queue manager {name}", *codes)
    try:
        yield Session(hconn)
    finally:
        calls.MQDISC(hconn)


def check(verb: str, subject: str, completion: int, reason: int) -> None:
    """Raise EmbeddedQueueManagerError unless a call completed with MQCC_OK."""
    if completion != MQCC_OK:
        raise EmbeddedQueueManagerError(f"{verb} of {subject} failed: {reason_text(reason)}")
