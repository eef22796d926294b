"""Take a run's snapshot: browse its queue, and check the messages that the run names."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq import lake
from mqdlq.controls.evidence.checks import browse_stream, check_statistics, record_stream_check
from mqdlq.errors import HandlerError
from mqdlq.headers import message_key
from mqdlq.lake import SnapshotManifest, SnapshotWriter, read_manifest, snapshot_rows
from mqdlq.lake.schema import SETTLED
from mqdlq.ledger.tables import Run, TakenSnapshot
from mqdlq.model import MessageClass, QueueKind
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import QueueManager, connect
from mqdlq.plan import needs_a_dlh
from mqdlq.rules import parse, table_with
from mqdlq.stages.execute import Execution, settle
from mqdlq.stages.sense.work_detection import has_open_units
from mqdlq.stages.snapshot.capture import PayloadCapture
from mqdlq.stages.snapshot.compact_rows import SettledMessageIndex, record_causes
from mqdlq.stages.snapshot.rows import (
    AttemptNumbers,
    Highlighter,
    NumberedMessage,
    PropertyMatches,
    RowBuilder,
    compute_expiries,
    make_backout_inquiry,
    to_array,
)
from mqdlq.stages.snapshot.snapshot_options import SnapshotOptions
from mqdlq.structures import MQMD

PROGRESS_EVERY: Final = 10_000
_MAX_BATCH_MESSAGES: Final = 4096
_MAX_BATCH_BYTES: Final = 8 << 20
_EXPIRY: Final = MQMD.slice_of("expiry")

_STRAYS: Final = {
    # IBM's handler reports each such message every time it skips it.
    QueueKind.DEAD_LETTER: "AMQ8721: {} messages are not prefixed by a valid MQDLH",
    QueueKind.BACKOUT: "{} messages on this backout queue begin with an MQDLH, valid or not",
}


def take_snapshot(execution: Execution, options: SnapshotOptions | None = None) -> SnapshotManifest:
    """Browse the queue once and write its messages to the lake, with the run's frozen rules.

    The queue is opened only to browse, so no application is disturbed and no BackoutCount changes.
    Settled messages get compact rows, all others full rows. If the manifest's `counts.full` is 0,
    there is nothing to evaluate or execute, and settling the run needs no plan. A second call for
    the same run returns its snapshot. Raises QueueManagerError and LakeError; the files that a
    crash leaves have no manifest, so later stages ignore them.
    """
    run, ledger, lake_root = execution.run, execution.ledger, execution.lake_root
    clock, progress = execution.clock, execution.log.info
    recorded = ledger.snapshots.of_run(run.run_id)
    if recorded is not None:
        progress(f"this run already has a snapshot: {recorded.snapshot_id}")
        return read_manifest(recorded.location)
    chosen, taken_at = options or SnapshotOptions(), clock()
    snapshot_id = new_snapshot_id(taken_at)
    known = SettledMessageIndex(run, chosen, ledger, lake_root)
    because = known.load(taken_at)
    if because and not run.has_given_action:  # a given action has no settled messages
        progress(f"every message is read in full: {because}")
    with (
        connect(execution.settings) as queue_manager,
        SnapshotWriter(lake_root, run.queue_manager, run.queue, snapshot_id) as writer,
    ):
        with closing(PayloadCapture(chosen, writer, queue_manager, run.queue)) as capture:
            strays = _SnapshotBrowse(execution, queue_manager, writer, known, capture).write()
        is_encrypted = chosen.key and chosen.max_captured_bytes != 0
        key_id = chosen.key.key_id if chosen.key and is_encrypted else ""
        manifest = finish_snapshot(
            writer, run, taken_at, payload=chosen.payload, payload_key_id=key_id
        )
    ledger.snapshots.record(
        TakenSnapshot(
            run.run_id,
            snapshot_id,
            writer.directory,
            manifest.messages,
            manifest.taken_at,
            manifest.settled,
        )
    )
    if strays and not run.has_given_action:
        progress(f"{_STRAYS[run.queue_kind].format(strays)}; they are left")
    known_of = f", {manifest.settled} of them settled" if manifest.settled else ""
    progress(
        f"snapshot {snapshot_id}: {manifest.messages} messages{known_of}, {manifest.bytes} bytes"
    )
    return manifest


def new_snapshot_id(at: datetime) -> str:
    return f"{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def finish_snapshot(
    writer: SnapshotWriter,
    run: Run,
    taken_at: datetime,
    *,
    payload: str = "none",
    payload_key_id: str = "",
    put_together_from: tuple[str, ...] = (),
) -> SnapshotManifest:
    """Complete a snapshot with the run's frozen rules and the rest of its description."""
    return writer.finish(
        taken_at=taken_at,
        taken_by=run.started_by,
        rules_digest=run.rules_digest,
        rules_text=run.rules_text,
        nul_as_blank=run.nul_as_blank,
        payload=payload,
        payload_key_id=payload_key_id,
        put_together_from=put_together_from,
        message_keys=run.message_keys,
        has_given_action=run.has_given_action,
        queue_kind=run.queue_kind,
    )


class _SnapshotBrowse:
    """One browse of a queue into a snapshot."""

    def __init__(
        self,
        execution: Execution,
        queue_manager: QueueManager,
        writer: SnapshotWriter,
        known: SettledMessageIndex,
        capture: PayloadCapture,
    ) -> None:
        self._run, self._queue_manager, self._writer = execution.run, queue_manager, writer
        self._known, self._capture = known, capture
        self._clock, self._progress = execution.clock, execution.log.info
        self._attempts = AttemptNumbers(execution.run, execution.ledger)
        self._matches = PropertyMatches(table_with(execution.run.rules_text, "PROPERTY"))

    def write(self) -> int:
        """Write a row per message; return how many of the run's messages no rule can match."""
        run, constants = self._run, self._queue_manager.client.CMQC
        ask = make_backout_inquiry(self._queue_manager)
        highlights = Highlighter(run.queue_manager, run.queue, run.retry_interval_s, ask)
        named = pa.array(sorted(run.named), pa.binary()) if run.named else None
        builder = RowBuilder(
            max_length=self._find_max_length(),
            ccsid=int(self._queue_manager.inquire(constants.MQIA_CODED_CHAR_SET_ID)),
        )
        strays = 0
        for batch in self._browse_batches():
            fresh = self._separate_settled(batch)
            if fresh:
                rows = highlights.add_to(builder.rows(fresh, self._clock()))
                rows = self._attempts.add_to(rows)
                rows = self._matches.add_to(rows, [sighted.browsed for sighted in fresh])
                self._writer.write_batch(rows)
                offsets = rows.column("payload_offset").to_pylist()
                for one, offset in zip(fresh, offsets, strict=True):
                    self._capture.keep(one, offset)
                stray = pc.not_equal(rows.column("class"), run.queue_kind.acts_on.value)
                if named is not None:
                    stray = pc.and_(stray, pc.is_in(rows.column("message_key"), value_set=named))
                strays += pc.sum(stray).as_py()
        return strays

    def _browse_batches(self) -> Iterator[list[NumberedMessage]]:
        """Browse the queue in batches of some thousand messages, fewer if their bodies are read."""
        with self._queue_manager.browsing(self._run.queue) as queue:
            cursor = BrowseCursor(
                self._queue_manager,
                queue,
                self._run.queue,
                self._matches.browsed_length(self._capture.browsed_length),
                self._matches.names,
            )
            batch: list[NumberedMessage] = []
            held, count = 0, self._writer.count
            for browse_seq, browsed in enumerate(cursor.messages(), start=1):
                key = message_key(browsed.descriptor, browsed.total_length, browsed.prefix)
                count(key, browsed.total_length)
                batch.append(NumberedMessage(browse_seq, key, browsed))
                held += len(browsed.prefix)
                if len(batch) == _MAX_BATCH_MESSAGES or held >= _MAX_BATCH_BYTES:
                    yield batch
                    batch, held = [], 0
                if browse_seq % PROGRESS_EVERY == 0:
                    self._progress(f"{browse_seq} messages browsed")
            yield batch

    def _separate_settled(self, batch: Sequence[NumberedMessage]) -> Sequence[NumberedMessage]:
        entries = self._known.match([sighted.message_key for sighted in batch])
        places = np.flatnonzero(entries >= 0)
        if not places.size:
            return batch
        occurrences, lots = self._known.entries(entries[places])
        settled = [batch[place] for place in places.tolist()]
        self._writer.write_settled(self._build_compact_rows(settled, occurrences, lots))
        return [batch[place] for place in np.flatnonzero(entries < 0).tolist()]

    def _build_compact_rows(
        self, settled: Sequence[NumberedMessage], occurrences: Any, lots: Any
    ) -> pa.RecordBatch:
        """Return compact rows; `lots` are positions in the lots of the index."""
        known = self._known.lots
        chosen = pa.array(lots)
        endings = [lot.settled for lot in known]
        names = ("outcome", "rule", "action", "target_q", "target_q_mgr")
        of_lots: dict[str, list[Any]] = {
            "snapshot_id": [lot.snapshot_id for lot in known],
            **{name: [getattr(one, name) for one in endings] for name in names},
        }
        joined = b"".join([sighted.browsed.descriptor[_EXPIRY] for sighted in settled])
        columns: dict[str, Any] = {
            "browse_seq": [sighted.browse_seq for sighted in settled],
            "message_key": [sighted.message_key for sighted in settled],
            "occurrence": occurrences,
            "expires_at": compute_expiries(np.frombuffer(joined, np.int32), self._clock()),
            **{name: pa.array(values).take(chosen) for name, values in of_lots.items()},
        }
        arrays = [to_array(columns[field.name], field.type) for field in SETTLED]
        return pa.RecordBatch.from_arrays(arrays, schema=SETTLED)

    def _find_max_length(self) -> int:
        """Return the length of a possibly truncated message; warn if the queue can truncate."""
        constants = self._queue_manager.client.CMQC
        longest = int(
            self._queue_manager.inquire_queue(self._run.queue, constants.MQIA_MAX_MSG_LENGTH)
        )
        of_all = int(self._queue_manager.inquire(constants.MQIA_MAX_MSG_LENGTH))
        if longest < of_all:
            self._progress(
                f"warning: MAXMSGL of {self._run.queue} is {longest}, that of the queue manager"
                f" {of_all}: longer messages are cut or refused when they are dead-lettered;"
                f" ALTER QLOCAL({self._run.queue}) MAXMSGL({of_all}) keeps them whole"
            )
        return min(longest, of_all)


# The stage snapshot: take a run's snapshot, and decide whether there is anything to evaluate.


def snapshot_queue(execution: Execution, options: SnapshotOptions) -> SnapshotManifest | None:
    """Take the snapshot of a run's queue; return None if there is nothing to evaluate.

    Messages that earlier runs have settled need no plan. If a run finds no other message and no
    interrupted unit of work, it settles its account here. A second call finds the snapshot of the
    first. Raises HandlerError, recorded for the report, for named messages that the run cannot act
    on, and the errors of `take_snapshot` and `settle`.
    """
    run, ledger, log = execution.run, execution.ledger, execution.log
    # Before the snapshot; if this run has a snapshot, it is too late for the check.
    is_new = ledger.snapshots.of_run(run.run_id) is None
    copies = browse_stream(execution) if options.stream and is_new else None
    manifest = take_snapshot(execution, options)
    if copies is not None:
        record_stream_check(execution, copies)
    if options.statistics and is_new:
        check_statistics(execution, options.statistics)
    place = str(locate_snapshot(manifest, execution.lake_root)["snapshot"])
    for warning in check_named_messages(run, place):
        log.warning("%s", warning)
    record_causes(run, ledger=ledger)
    if manifest.full or run.dry_run or has_open_units(run, ledger):
        return manifest
    settle(execution)
    log.info(
        "nothing new: %d messages, all settled; the other tasks are skipped", manifest.messages
    )
    return None


def locate_snapshot(manifest: SnapshotManifest, lake_root: str) -> dict[str, str | int]:
    """Return the locations of a snapshot and of its plan, and the number of its messages."""
    plan_id = lake.plan_id(manifest.snapshot_id, manifest.rules_digest)
    return {
        "snapshot": lake.snapshot_directory(
            lake_root, manifest.queue_manager, manifest.queue, manifest.snapshot_id
        ),
        "plan_id": plan_id,
        "plan": lake.plan_directory(lake_root, plan_id),
        "messages": manifest.messages,
    }


# Check which of the messages that a run names are on its queue and can be acted on.
#
# Without this check, a wrong message key would look like a message without work.

_STRAYING: Final = {
    QueueKind.DEAD_LETTER: "have no valid MQDLH",
    QueueKind.BACKOUT: "begin with an MQDLH",
}
_REPAIRABLE: Final = (MessageClass.DEAD_LETTER, MessageClass.NO_DLH)
_SHOWN_DIGITS = 12
"""How many digits of a message_key are shown; they distinguish messages well enough for people."""


def check_named_messages(run: Run, location: str) -> Iterator[str]:
    """Yield warnings about named messages that the run will not act on.

    Raises HandlerError if none of them is on the queue, or if the given action cannot be carried
    out on one of them.
    """
    named = run.named
    if not named:
        return
    classes = _classify_named_messages(run, location)
    place = f"{run.queue} of {run.queue_manager}"
    if not classes:
        raise HandlerError(
            "MQDLQ-120",
            f"none of the messages named in message_keys is on {place}: they have left the queue,"
            " or the keys are not those of the JSON report; name messages that are on the queue",
        )
    if absent := named - set(classes):
        keys = _format_keys(absent)
        yield f"{len(absent)} of {len(named)} named messages are not on {place}: {keys}"
    if run.has_given_action:
        check_given_action(run, location)
    elif strays := [key for key, cls in classes.items() if cls != run.queue_kind.acts_on]:
        yield (
            f"{len(strays)} of {len(named)} named messages {_STRAYING[run.queue_kind]}, so that no"
            f" rule applies to them; they stay unless `action` is given: {_format_keys(strays)}"
        )


def check_given_action(run: Run, location: str) -> None:
    """Raise HandlerError if a given action cannot be carried out on a named message."""
    if not run.has_given_action:
        return
    classes = _classify_named_messages(run, location)
    if run.repair and (invalid := [key for key, cls in classes.items() if cls not in _REPAIRABLE]):
        raise HandlerError(
            "MQDLQ-522",
            f"repair is refused for {len(invalid)} of {len(run.named)} named messages, whose MQDLH"
            f" is not valid: {_format_keys(invalid)}; name messages with a valid MQDLH or with"
            " none",
        )
    without = [key for key, cls in classes.items() if cls != MessageClass.DEAD_LETTER]
    if without and (needed := needs_a_dlh(parse(run.rules_text, frozen=True).rules[0])):
        raise HandlerError(
            "MQDLQ-121",
            f"{needed} is refused for {len(without)} of {len(run.named)} named messages, which"
            f" have no valid MQDLH: {_format_keys(without)}; forward such messages to a queue given"
            " by its name, discard or ignore them",
        )


def _classify_named_messages(run: Run, location: str) -> dict[bytes, str]:
    named = run.named
    return {
        row["message_key"]: row["class"]
        for row in snapshot_rows(location, ["message_key", "class"])
        if row["message_key"] in named
    }


def _format_keys(keys: Iterable[bytes]) -> str:
    return ", ".join(f"{key[:_SHOWN_DIGITS]}…" for key in sorted(key.hex() for key in keys))
