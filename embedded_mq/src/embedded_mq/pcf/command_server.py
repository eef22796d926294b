"""The command server: answer the PCF messages on SYSTEM.ADMIN.COMMAND.QUEUE.

No process runs as the server. The connection that commits a put to the command queue runs the
server before its call returns: in the same process and thread, but over a separate connection. The
server gets each command under syncpoint, runs it, puts the responses and commits, so that a killed
process loses no command. A command runs at least once: if the process dies between a change and the
commit, the command is back on the queue, and the next put to the queue starts a server that repeats
it. An expired command is discarded like any message. Commands wait while another application has
the command queue open for exclusive input, or while the queue is inhibited for get.

A response that cannot be put goes to the dead-letter queue. It is discarded if the report options
of the command say so (MQRO_PASS_DISCARD_AND_EXPIRY with MQRO_DISCARD_MSG, as in both clients' own
PCFExecute), or if there is no dead-letter queue. The same applies to a message that is not a
request. With MQRO_PASS_DISCARD_AND_EXPIRY, responses inherit the remaining expiry of the command.

IBM MQ docs, "PCF command messages", "PCF responses", "Standard responses".
"""

import sqlite3
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name, text
from embedded_mq.constants import MQRC, reason_text
from embedded_mq.engine.connection import Connection, OpenObject
from embedded_mq.engine.failures import MQCC_FAILED, CallFailedError, log
from embedded_mq.engine.messages import getting, putting
from embedded_mq.engine.messages.context import set_queue_manager_origin
from embedded_mq.engine.objects import authority, opening
from embedded_mq.engine.objects.attributes import COMMAND_QUEUE, MAX_MSG_LENGTH
from embedded_mq.engine.objects.queue_objects import CommandRefusedError
from embedded_mq.headers.rfh2 import Description
from embedded_mq.pcf import constants as cf
from embedded_mq.pcf import messages as pcf
from embedded_mq.pcf.authorities import AUTHORITY_COMMANDS
from embedded_mq.pcf.channels import CHANNEL_COMMANDS
from embedded_mq.pcf.commands import CHANGING, Command, Request
from embedded_mq.pcf.inquiries import INQUIRING
from embedded_mq.pcf.messages import Header, Parameter, PcfError
from embedded_mq.pcf.queue_status import STATUS_COMMANDS
from embedded_mq.storage import call_log
from embedded_mq.structures import MQDLH, MQGMO, MQMD, MQOD, MQPMO

MQFMT_ADMIN, MQFMT_DEAD_LETTER_HEADER = b"MQADMIN ", b"MQDEAD  "
COMMANDS: Mapping[int, Command] = {
    **CHANGING,
    **INQUIRING,
    **AUTHORITY_COMMANDS,
    **CHANNEL_COMMANDS,
    **STATUS_COMMANDS,
}

_NAMES = {number: name for name, number in vars(cf).items() if name.startswith("MQCMD_")}


def serve(directory: Path) -> None:
    """Answer every command on the command queue of the queue manager in a directory."""
    try:
        server = Connection(directory, is_administrative=True)
    except CallFailedError as failure:
        log.warning("the command server cannot start: %s", failure)
        return
    try:
        _answer_all(server)
    except CallFailedError as failure:
        log.warning("commands wait on %s: %s", COMMAND_QUEUE, failure)
        server.break_connection()
    except sqlite3.Error:
        log.exception("commands wait on %s", COMMAND_QUEUE)
        server.abandon()
    except BaseException:
        server.abandon()
        raise
    else:
        server.disconnect()


def _answer_all(server: Connection) -> None:
    options = mq.MQOO_INPUT_AS_Q_DEF | mq.MQOO_SAVE_ALL_CONTEXT
    commands = _opened(server, object_name(COMMAND_QUEUE), b"", options)
    for md, body in _messages(server, commands):
        _CommandAnswer(server, commands, md).answer(body)
        server.commit()


def _messages(server: Connection, commands: OpenObject) -> Iterator[tuple[MQMD, bytes]]:
    """Get the commands under syncpoint, one after another."""
    md, gmo = MQMD.blank(), MQGMO.blank()
    md.struc_id, md.version = b"MD  ", mq.MQMD_VERSION_2
    gmo.struc_id, gmo.version, gmo.match_options = b"GMO ", 2, 0
    gmo.options = mq.MQGMO_SYNCPOINT | mq.MQGMO_NO_PROPERTIES
    while True:
        try:
            got = getting.get(server, commands.handle, md.pack(), gmo.pack(), MAX_MSG_LENGTH)
        except CallFailedError as failure:
            if failure.reason == MQRC["MQRC_NO_MSG_AVAILABLE"]:
                return
            raise
        yield MQMD.unpack(got[1]), got[0]


class _CommandAnswer:
    """One command and the destination of its responses."""

    def __init__(self, server: Connection, commands: OpenObject, md: MQMD) -> None:
        """Take the open command queue, which has saved the command's context, and its MQMD."""
        self._server, self._commands, self._md = server, commands, md

    def answer(self, body: bytes) -> None:
        """Run a command and put its responses."""
        md = self._md
        if md.msg_type != mq.MQMT_REQUEST or not text(md.reply_to_q):
            log.warning("a message on %s is not a request; it is not carried out", COMMAND_QUEUE)
            name = self._server.store.catalogue().name
            target = object_name(COMMAND_QUEUE), object_name(name)
            self._dead_letter_or_discard(md.copy(), body, MQRC["MQRC_MSG_TYPE_ERROR"], target)
            return
        reply, target = self._reply(), (md.reply_to_q, md.reply_to_q_mgr)
        for response in responses_to(self._server, md, body):
            try:
                self._put(*target, reply, response)
            except CallFailedError as failure:
                self._dead_letter_or_discard(reply.copy(), response, failure.reason, target)

    def _reply(self) -> MQMD:
        """Return the descriptor of the responses (IBM MQ docs, "PCF responses")."""
        md, reply = self._md, MQMD.blank()
        reply.struc_id, reply.version = b"MD  ", mq.MQMD_VERSION_1
        reply.msg_type, reply.format = mq.MQMT_REPLY, MQFMT_ADMIN
        reply.encoding, reply.coded_char_set_id = mq.MQENC_NATIVE, mq.MQCCSI_Q_MGR
        reply.priority, reply.persistence = md.priority, md.persistence
        passes_id = md.report & mq.MQRO_PASS_MSG_ID
        passes_correl_id = md.report & mq.MQRO_PASS_CORREL_ID
        reply.msg_id = md.msg_id if passes_id else bytes(24)
        reply.correl_id = md.correl_id if passes_correl_id else md.msg_id
        reply.expiry = mq.MQEI_UNLIMITED
        if md.report & mq.MQRO_PASS_DISCARD_AND_EXPIRY:
            reply.expiry = md.expiry
            reply.report = md.report & mq.MQRO_DISCARD_MSG
        return reply

    def _put(self, q_name: bytes, q_mgr_name: bytes, md: MQMD, body: bytes) -> None:
        options = mq.MQOO_OUTPUT | mq.MQOO_PASS_IDENTITY_CONTEXT
        opened = _opened(self._server, q_name, q_mgr_name, options)
        pmo = MQPMO.blank()
        pmo.struc_id, pmo.version, pmo.context = b"PMO ", 1, self._commands.handle
        pmo.options = mq.MQPMO_SYNCPOINT | mq.MQPMO_PASS_IDENTITY_CONTEXT
        try:
            putting.put(self._server, opened.handle, md.pack(), pmo.pack(), body)
        finally:
            self._server.drop_object(opened)

    def _dead_letter_or_discard(
        self, md: MQMD, body: bytes, reason: int, target: tuple[bytes, bytes]
    ) -> None:
        """Put a message on the dead-letter queue, or discard it if its report options say so."""
        catalogue = self._server.store.catalogue()
        dead_letters = str(catalogue.queue_manager["DEADQ"])
        why = reason_text(reason)
        if md.report & mq.MQRO_DISCARD_MSG or not dead_letters:
            log.warning("a message of the command server is discarded: %s", why)
            return
        origin = md.copy()
        set_queue_manager_origin(origin, catalogue.name, time.time())
        header = MQDLH(
            reason,
            *target,
            md.encoding,
            md.coded_char_set_id or catalogue.number("CCSID"),
            md.format,
            origin.put_appl_type,
            origin.put_appl_name,
            origin.put_date,
            origin.put_time,
        ).pack()
        md.format, md.encoding = MQFMT_DEAD_LETTER_HEADER, mq.MQENC_NATIVE
        md.coded_char_set_id = mq.MQCCSI_Q_MGR
        try:
            self._put(object_name(dead_letters), b"", md, header + body)
        except CallFailedError as failure:
            log.warning("a message of the command server is lost: %s, then %s", why, failure)


def responses_to(server: Connection, md: MQMD, body: bytes) -> Iterator[bytes]:
    """Run a command and yield its responses, of which there is at least one."""
    order = Description(md.encoding, md.coded_char_set_id, md.format).order
    command, comp_code, reason = 0, 0, 0
    messages: list[list[Parameter]]
    try:
        if len(body) >= pcf.MQCFH_STRUC_LENGTH:
            (command,) = struct.unpack_from(f"{order}i", body, 12)
        messages = _run_command(server, md, body, order)
    except PcfError as error:
        comp_code, reason = MQCC_FAILED, cf.reason_code(error.reason)
        messages = [[pcf.integer(*error.detail)] if error.detail else []]
    except CommandRefusedError as error:
        comp_code, reason, messages = MQCC_FAILED, cf.reason_code(error.reason), [[]]
    except CallFailedError as failure:
        comp_code, reason, messages = MQCC_FAILED, failure.reason, [[]]
    for number, parameters in enumerate(messages, start=1):
        control = cf.MQCFC_LAST if number == len(messages) else cf.MQCFC_NOT_LAST
        header = Header(cf.MQCFT_RESPONSE, command, comp_code, reason, number, control)
        yield pcf.write(header, parameters)


def _run_command(server: Connection, md: MQMD, body: bytes, order: str) -> list[list[Parameter]]:
    if md.format != MQFMT_ADMIN:
        raise PcfError("MQRCCF_MD_FORMAT_ERROR")
    header, parameters = pcf.read(body, order)
    if header.type not in {cf.MQCFT_COMMAND, cf.MQCFT_COMMAND_XR}:
        raise PcfError("MQRCCF_CFH_TYPE_ERROR")
    if header.sequence != 1:
        raise PcfError("MQRCCF_CFH_MSG_SEQ_NUMBER_ERR")
    if header.control != cf.MQCFC_LAST:
        raise PcfError("MQRCCF_CFH_CONTROL_ERROR")
    if header.command not in COMMANDS:
        log.warning("the PCF command %s is not emulated", header.command)
        raise PcfError("MQRCCF_CFH_COMMAND_ERROR")
    names = (text(each.value) for each in parameters if isinstance(each.value, bytes))
    call_log.note(server.connection_id, _NAMES[header.command], next(names, ""))
    request = Request(server, text(md.user_identifier), parameters)
    request.check_authority(authority.QUEUE_MANAGER, request.catalogue.name, "DSP")
    return COMMANDS[header.command](request)


def _opened(server: Connection, name: bytes, q_mgr_name: bytes, options: int) -> OpenObject:
    od = MQOD.blank()
    od.struc_id, od.version, od.object_type = b"OD  ", 1, mq.MQOT_Q
    od.object_name, od.object_q_mgr_name = name, q_mgr_name
    # Not registered: the queue is open only within one call of the application.
    return opening.open_object(server, od, options, is_registered=bool(options & opening.INPUT))
