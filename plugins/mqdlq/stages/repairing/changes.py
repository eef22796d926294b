"""Find the changes that a repair makes to one message, and whether the body allows them.

MQMD.Format and MQMD.CodedCharSetId describe the first part of a body. If that part is a header such
as an MQRFH2, the header itself has the Format and the CCSID of the data after it (IBM MQ docs,
"MQRFH2 - Rules and formatting header 2"): these cannot change without changing the body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mqdlq.headers import DLH_LENGTH, MessageDescriptor, classify, following_ccsid, walk
from mqdlq.ledger import MessageRepair
from mqdlq.model import MessageClass, Step
from mqdlq.stages.repairing.repair import Repair

COLUMNS: Final = (
    "class",
    "format",
    "coded_char_set_id",
    "dlh_format",
    "dlh_coded_char_set_id",
    "dlh_dest_q_name",
    "dlh_dest_q_mgr_name",
    "header_chain",
    "total_length",
)
"""The columns of a snapshot that `find_changes` reads."""


@dataclass(frozen=True, slots=True)
class _Data:
    """The bytes that are put, from `offset` of the message on, and how they are described.

    `header` is the structure of the first header in them, "" if they begin with none.
    """

    offset: int
    format: str
    ccsid: int
    dest_q: str
    dest_q_mgr: str
    header: str


def find_changes(
    repair: Repair, step: Step, local: str, row: Mapping[str, Any], message_id: int = 0
) -> MessageRepair:
    """Return the changes of one message, with a refusal if the repair cannot be made.

    `row` has the columns `COLUMNS` of the message in a snapshot, and `local` is the queue manager
    that the message is on. A Format that announces a header is accepted here; `check_body` compares
    it with the body.
    """
    data = _find_data(row)
    is_local = not step.target_q_mgr and data.dest_q_mgr == local
    changes = MessageRepair(
        message_id=message_id,
        format_from=data.format,
        format_to=data.format if repair.format is None else repair.format,
        ccsid_from=data.ccsid,
        ccsid_to=repair.coded_char_set_id or data.ccsid,
        dest_q_from=data.dest_q,
        dest_q_mgr_from=data.dest_q_mgr,
        target_q=step.target_q,
        target_q_mgr=local if is_local else step.target_q_mgr,
        length=row["total_length"] - data.offset,
    )
    return _refused(changes, _explain_refusal(changes, data.header))


def check_body(changes: MessageRepair, descriptor: bytes, body: bytes) -> MessageRepair:
    """Return the changes, refused if the new Format announces a header that is not in the body.

    `descriptor` is the packed MQMD, `body` the whole message, with its MQDLH if it has one.
    """
    if changes.refusal or changes.format_from == changes.format_to:
        return changes
    md = MessageDescriptor.decode(descriptor)
    found = classify(
        body, len(body), encoding=md.encoding, ccsid=md.coded_char_set_id, format=md.format
    )
    chain = walk(
        body,
        len(body),
        encoding=found.dlh.encoding if found.dlh else md.encoding,
        ccsid=changes.ccsid_to,
        format=changes.format_to,
        offset=DLH_LENGTH if found.dlh else 0,
    )
    if chain.is_whole:
        return changes
    how = "do not begin with a valid one"
    if chain.headers:
        last = chain.headers[-1].structure
        how = f"begin with a valid {last} that announces another one, which cannot be read"
    return _refused(
        changes,
        f"Format {changes.format_to} announces a header, and its data {how}; a repair never changes"
        " the body",
    )


def name_of_format(value: str) -> str:
    """Return a Format as people read it: a blank one has a name, control characters are escaped."""
    return repr(value)[1:-1] or "MQFMT_NONE"


def _find_data(row: Mapping[str, Any]) -> _Data:
    chain = row["header_chain"] or ()
    if row["class"] != MessageClass.DEAD_LETTER:
        return _Data(
            0,
            _strip(row["format"]),
            row["coded_char_set_id"],
            "",
            "",
            next(iter(chain), ""),
        )
    return _Data(
        DLH_LENGTH,
        _strip(row["dlh_format"]),
        following_ccsid(row["dlh_coded_char_set_id"], row["coded_char_set_id"]),
        _strip(row["dlh_dest_q_name"]),
        _strip(row["dlh_dest_q_mgr_name"]),
        next(iter(chain[1:]), ""),
    )


def _explain_refusal(changes: MessageRepair, header: str) -> str:
    is_described_anew = (changes.format_from, changes.ccsid_from) != (
        changes.format_to,
        changes.ccsid_to,
    )
    if header and is_described_anew:
        return (
            f"its data begin with a valid {header}, which has their Format and CodedCharSetId, so"
            " that the body would have to change; repair only the destination"
        )
    is_moved = (changes.dest_q_from, changes.dest_q_mgr_from) != (
        changes.target_q,
        changes.target_q_mgr,
    )
    if not is_described_anew and not is_moved:
        return (
            f"the repair changes nothing: Format {name_of_format(changes.format_to)},"
            f" CodedCharSetId {changes.ccsid_to} and the destination are the same already"
        )
    return ""


def _strip(value: str) -> str:
    """Return a name as MQ reads it: up to the first NUL, without trailing blanks."""
    return value.partition("\0")[0].rstrip(" ")


def _refused(changes: MessageRepair, why: str) -> MessageRepair:
    return replace(changes, refusal=why)
