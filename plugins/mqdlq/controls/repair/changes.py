"""Find the changes that a repair makes to one message, and whether its body allows them.

MQMD.Format and MQMD.CodedCharSetId describe the first part of a body. If that part is a header such
as an MQRFH2, the header itself has the Format and the CCSID of the data after it (IBM MQ docs,
"MQRFH2 - Rules and formatting header 2"): these cannot change without changing the body. A body
that replaces another one begins with the same headers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mqdlq import headers
from mqdlq.causes import mq_name
from mqdlq.controls.repair import Repair, read_repair
from mqdlq.errors import LakeError
from mqdlq.headers.chain import Chain
from mqdlq.lake import planned_messages, snapshot_rows
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import MessageRepair, Run
from mqdlq.model import AttemptState, MessageClass, Step
from mqdlq.reasons import Reason, Why, code_of, words_of
from mqdlq.words import count, target

_TEXT: Final = "MQSTR"
COLUMNS: Final = (
    *("class", "format", "coded_char_set_id", "header_chain", "total_length"),
    *("dlh_format", "dlh_coded_char_set_id", "dlh_dest_q_name", "dlh_dest_q_mgr_name"),
)
"""The columns of a snapshot that `find_changes` reads."""


def find_changes(
    repair: Repair, step: Step, local: str, row: Mapping[str, Any], message_id: int = 0
) -> MessageRepair:
    """Return the changes of one message, with a refusal if the repair cannot be made.

    `row` has the columns `COLUMNS` of its snapshot, and `local` is the queue manager that it is on.
    A Format that announces a header is accepted here; `check_body` compares it with the body.
    """
    # The bytes that are put, from `offset` of the message on, are described by its MQDLH or MQMD.
    has_dlh = row["class"] == MessageClass.DEAD_LETTER
    offset, prefix = (headers.DLH_LENGTH, "dlh_") if has_dlh else (0, "")
    format_from, ccsid_from = mq_name(row[f"{prefix}format"]), row[f"{prefix}coded_char_set_id"]
    if has_dlh:
        ccsid_from = headers.following_ccsid(ccsid_from, row["coded_char_set_id"])
    dest_q, dest_q_mgr = (
        mq_name(row[name]) if has_dlh else "" for name in ("dlh_dest_q_name", "dlh_dest_q_mgr_name")
    )
    is_local = not step.target_q_mgr and dest_q_mgr == local
    changes = MessageRepair(
        message_id=message_id,
        format_from=format_from,
        format_to=format_from if repair.format is None else repair.format,
        ccsid_from=ccsid_from,
        ccsid_to=repair.coded_char_set_id or ccsid_from,
        dest_q_from=dest_q,
        dest_q_mgr_from=dest_q_mgr,
        target_q=step.target_q,
        target_q_mgr=local if is_local else step.target_q_mgr,
        length=row["total_length"] - offset,
        body_to=repair.body_sha256 or "",
        length_to=repair.body_length or 0,
    )
    # The first header behind an MQDLH, which is itself in the chain.
    found = (row["header_chain"] or ())[has_dlh:]
    refusal = _find_refusal(changes, next(iter(found), ""))
    if changes.body_to and headers.AMS_HEADER in found:
        refusal = Why.BODY_PROTECTED()
    return replace(changes, refusal=refusal)


def check_body(
    changes: MessageRepair, descriptor: bytes, body: bytes, replacement: bytes | None = None
) -> MessageRepair:
    """Return the changes, refused if they do not fit the body that will be put.

    That is the case if a new Format announces a header that is not in it. A replacement must begin
    with the headers of the original, and be text if its Format is MQSTR. `descriptor` is the packed
    MQMD, `body` the whole message, with its MQDLH if it has one.
    """
    if changes.refusal or (changes.format_from == changes.format_to and replacement is None):
        return changes
    md = headers.MessageDescriptor.decode(descriptor)
    _, _, dlh = headers.classify(body, len(body), **md.following)
    encoding, original = (
        dlh.encoding if dlh else md.encoding,
        body[headers.DLH_LENGTH * bool(dlh) :],
    )
    put = original if replacement is None else replacement
    chain = headers.walk(
        put, len(put), encoding=encoding, ccsid=changes.ccsid_to, format=changes.format_to
    )
    if replacement is not None:
        old = headers.walk(
            original,
            len(original),
            encoding=encoding,
            ccsid=changes.ccsid_from,
            format=changes.format_from,
        )
        flags = [md.msg_flags, *(getattr(one.record, "msg_flags", 0) for one in old.headers)]
        refusal = _find_fault_of_replacement(changes, replacement, original, chain, old)
        if any(one & headers.SEGMENT for one in flags):
            refusal = Why.BODY_OF_SEGMENT()
        return replace(changes, refusal=refusal)
    if chain.is_whole:
        return changes
    if not chain.headers:
        return replace(changes, refusal=Why.NO_SUCH_HEADER(format=changes.format_to))
    last = chain.headers[-1].structure
    refusal = Why.NEXT_HEADER_UNREADABLE(format=changes.format_to, header=last)
    return replace(changes, refusal=refusal)


def _find_fault_of_replacement(
    changes: MessageRepair, replacement: bytes, original: bytes, new: Chain, old: Chain
) -> Reason | None:
    if replacement == original:
        return _find_refusal(replace(changes, body_to=""), "")
    names = ", ".join(one.structure for one in old.headers)
    if replacement[: new.payload_offset] != original[: old.payload_offset] or not new.is_whole:
        return Why.BODY_WITHOUT_HEADERS(headers=names or "none that can be read")
    encoding, ccsid, format_ = new.following or (0, 0, "")
    data = replacement[new.payload_offset :]
    if format_.rstrip() == _TEXT and headers.read_text(data, ccsid, encoding) is None:
        return Why.BODY_NOT_TEXT(ccsid=ccsid)
    return None


def name_of_format(value: str) -> str:
    """Return a Format as people read it: a blank one has a name, control characters are escaped."""
    return repr(value)[1:-1] or "MQFMT_NONE"


def _find_refusal(changes: MessageRepair, header: str) -> Reason | None:
    described = changes.format_to, changes.ccsid_to
    if changes.body_to and described == (changes.format_from, changes.ccsid_from):
        return None
    if described != (changes.format_from, changes.ccsid_from):
        return Why.HEADER_DESCRIBES_DATA(header=header) if header else None
    if (changes.dest_q_from, changes.dest_q_mgr_from) != (changes.target_q, changes.target_q_mgr):
        return None
    format_to = name_of_format(changes.format_to)
    return Why.REPAIR_CHANGES_NOTHING(format=format_to, ccsid=changes.ccsid_to)


def describe_changes(changes: MessageRepair) -> str:
    """Return the planned changes of a message in one line, or why it is not repaired.

    The snapshot does not show whether the body has the header that a new Format announces.
    """
    if changes.refusal:
        return f"not repaired: {changes.refusal.words}"
    header = headers.HEADER_OF_FORMAT.get(changes.format_to, "")
    is_new = header and changes.format_from != changes.format_to
    condition = f"; only if its data begin with a valid {header}" if is_new else ""
    unchanged = "" if changes.body_to else f"; body unchanged, {count(changes.length, 'byte')}"
    return f"{describe_fields(changes)}{unchanged}{condition}"


def explain_delivery(changes: MessageRepair) -> Reason:
    return Why.DELIVERED_REPAIRED(changes=describe_fields(changes))


def describe_fields(changes: MessageRepair) -> str:
    old_format, new_format = map(name_of_format, (changes.format_from, changes.format_to))
    old_target = target(changes.dest_q_from, changes.dest_q_mgr_from) or "none"
    pairs = (
        ("Format", old_format, new_format),
        ("CodedCharSetId", changes.ccsid_from, changes.ccsid_to),
        ("destination", old_target, target(changes.target_q, changes.target_q_mgr)),
    )
    words = [f"{name}: {old} → {new}" for name, old, new in pairs if old != new]
    if changes.body_to:
        new = f"{count(changes.length_to, 'byte')} with SHA-256 {changes.body_to[:12]}…"
        words.append(f"body: {count(changes.length, 'byte')} → {new}")
    return ", ".join(words)


def find_all_changes(
    run: Run, steps: Mapping[int, Sequence[Step]], ledger: Ledger
) -> dict[int, MessageRepair]:
    """Return the changes of a run's messages by message id, in browse order; none without a repair.

    `steps` are those of the run's plan by browse_seq. Changes that the run has recorded, after a
    look at the body, replace the changes that follow from the snapshot.
    """
    repair, snapshot = read_repair(run.repair), ledger.snapshots.of_run(run.run_id)
    if repair is None or snapshot is None:
        return {}
    ids = {one.browse_seq: one.message_id for one in ledger.messages.of_run(run.run_id)}
    planned = {
        ids[seq]: find_changes(repair, steps[seq][0], run.queue_manager, row, ids[seq])
        for row in snapshot_rows(snapshot.location, ["browse_seq", *COLUMNS])
        if (seq := row["browse_seq"]) in ids and steps.get(seq)
    }
    return planned | ledger.archive.repairs(run.run_id)


_NOT_SETTLED: Final = (AttemptState.INTENDED, AttemptState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class RepairRow:
    """Messages that a run repairs in the same way, or does not repair for the same reason.

    `changes` is in words; `refusal`, in words and as a code, is "" if they can be repaired. The
    originals of `delivered` are in the archive; the units of work of `unknown` are not settled.
    """

    changes: str
    refusal: str
    refusal_code: str
    messages: int
    delivered: int
    unknown: int


def repair_rows(run: Run | None, ledger: Ledger) -> tuple[RepairRow, ...]:
    """Return the changes of a run's messages, counted, the most frequent ones first.

    They are the changes that the run has recorded, and the planned ones of its other messages.
    """
    if run is None or not run.repair:
        return ()
    plan = ledger.plans.of_run(run.run_id)
    try:
        steps = (
            {one.browse_seq: one.steps for one in planned_messages(plan.location)} if plan else {}
        )
        found = find_all_changes(run, steps, ledger)
    except (LakeError, OSError):
        found = ledger.archive.repairs(run.run_id)
    moves = {copy.message_id: copy.move for copy in ledger.archive.copies(run_id=run.run_id)}
    counted = Counter[tuple[str, Reason | None]]()
    delivered, unknown = counted.copy(), counted.copy()
    for message_id, changes in found.items():
        kind, move = (describe_fields(changes), changes.refusal), moves.get(message_id)
        counted[kind] += 1
        delivered[kind] += move is AttemptState.CONFIRMED
        unknown[kind] += move in _NOT_SETTLED
    return tuple(
        RepairRow(
            kind[0], words_of(kind[1]), code_of(kind[1]), number, delivered[kind], unknown[kind]
        )
        for kind, number in counted.most_common()
    )


def repair_in_words(row: RepairRow) -> str:
    messages = count(row.messages, "message")
    if row.refusal:
        return f"{messages} not repaired: {row.refusal}"
    rest = row.messages - row.delivered - row.unknown
    states = [f"{row.delivered:,} delivered, originals in the archive"] if row.delivered else []
    states += [f"{row.unknown:,} not known"] if row.unknown else []
    states += [f"{rest:,} not delivered"] if rest else []
    unchanged = "" if "body: " in row.changes else "; body unchanged"
    return f"{messages} with {row.changes}{unchanged}; {'; '.join(states)}"
