"""Take a run's snapshot: browse its queue, and check the messages that the run names."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq import lake
from mqdlq.causes import COLUMNS, CauseCounter, CountedCause
from mqdlq.controls.evidence.checks import browse_stream, check_statistics, record_stream_check
from mqdlq.controls.repair import read_repair
from mqdlq.errors import HandlerError, LakeError
from mqdlq.headers import DLH_LENGTH
from mqdlq.lake.cause_numbers import book_causes
from mqdlq.lake.row_masks import KeySet
from mqdlq.lake.schema import SETTLED
from mqdlq.lake.selected import chosen_batches, chosen_of
from mqdlq.ledger import Ledger
from mqdlq.ledger.database import Row
from mqdlq.ledger.inbox import is_of_whole_queue
from mqdlq.ledger.tables import Run, TakenSnapshot
from mqdlq.model import MessageClass, QueueKind
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import QueueManager, connect
from mqdlq.plan import needs_a_dlh
from mqdlq.rules import parse, table_with, treatment_changes
from mqdlq.stages.execute import Execution, settle
from mqdlq.stages.sense import has_open_units
from mqdlq.stages.snapshot.capture import PayloadCapture, SnapshotOptions
from mqdlq.stages.snapshot.properties import PropertyMatches
from mqdlq.stages.snapshot.rows import (
    AttemptNumbers,
    Highlighter,
    NumberedMessage,
    RowBuilder,
    add_properties,
    compute_expiries,
    inquire_lengths,
    make_backout_inquiry,
    number_messages,
    to_array,
)
from mqdlq.stages.snapshot.selection import REPAIRABLE, Selection
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


def take_snapshot(
    execution: Execution, options: SnapshotOptions | None = None
) -> lake.SnapshotManifest:
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
        return lake.read_manifest(recorded.location)
    chosen, taken_at = options or SnapshotOptions(), clock()
    snapshot_id = new_snapshot_id(taken_at)
    selection = Selection.of(execution)
    known = _SettledMessages(execution, chosen, selection)
    because = known.load(taken_at)
    if because and not run.has_given_action:  # a given action has no settled messages
        progress(f"every message is read in full: {because}")
    with (
        connect(execution.settings) as queue_manager,
        lake.SnapshotWriter(lake_root, run.queue_manager, run.queue, snapshot_id) as writer,
    ):
        with closing(PayloadCapture(chosen, writer, queue_manager, run.queue)) as capture:
            browse = _SnapshotBrowse(execution, queue_manager, writer, known, capture)
            strays = browse.write()
        is_encrypted = chosen.key and chosen.max_captured_bytes != 0
        key_id = chosen.key.key_id if chosen.key and is_encrypted else ""
        manifest = finish_snapshot(
            writer, run, taken_at, payload=chosen.payload, payload_key_id=key_id
        )
    record_snapshot(execution, manifest, writer.directory, selection.absent if selection else 0)
    if selection and selection.unfit:
        progress(f"{selection.unfit} messages are left: a legal hold, or no MQDLH for the action")
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
    writer: lake.SnapshotWriter, run: Run, taken_at: datetime, **described: Any
) -> lake.SnapshotManifest:
    """Complete a snapshot with the run's frozen rules and the rest of its description.

    `described` are further fields of the manifest.
    """
    return writer.finish(
        taken_at=taken_at,
        taken_by=run.started_by,
        rules_digest=run.rules_digest,
        rules_text=run.rules_text,
        nul_as_blank=run.nul_as_blank,
        message_keys=run.message_keys,
        has_given_action=run.has_given_action,
        queue_kind=run.queue_kind,
        **described,
    )


def record_snapshot(
    execution: Execution, manifest: lake.SnapshotManifest, directory: str, absent: int = 0
) -> None:
    taken = TakenSnapshot(
        execution.run.run_id,
        manifest.snapshot_id,
        directory,
        manifest.messages,
        manifest.taken_at,
        manifest.settled,
        absent,
    )
    execution.ledger.snapshots.record(taken)


class _SnapshotBrowse:
    """One browse of a queue into a snapshot."""

    def __init__(
        self,
        execution: Execution,
        queue_manager: QueueManager,
        writer: lake.SnapshotWriter,
        known: _SettledMessages,
        capture: PayloadCapture,
    ) -> None:
        self._run, self._queue_manager, self._writer = execution.run, queue_manager, writer
        self._known, self._capture = known, capture
        self._clock, self._progress = execution.clock, execution.log.info
        self._attempts = AttemptNumbers(execution.run, execution.ledger)
        self._matches = PropertyMatches(table_with(execution.run.rules_text, "PROPERTY"))

    def write(self) -> int:
        """Write a row per message; return how many of the run's messages no rule can match."""
        run, selection = self._run, self._known.selection
        ask = make_backout_inquiry(self._queue_manager)
        highlights = Highlighter(run.queue_manager, run.queue, run.retry_interval_s, ask)
        builder = RowBuilder.of(self._queue_manager, self._find_max_length())
        strays = 0
        for batch in self._browse_batches():
            fresh = self._separate_settled(batch)
            if fresh:
                rows = highlights.add_to(builder.rows(fresh, self._clock()))
                rows = self._attempts.add_to(rows)
                rows = add_properties(rows, self._matches, [sighted.browsed for sighted in fresh])
                self._writer.write_batch(rows)
                has_dlh = pc.is_valid(rows.column("dlh_format")).to_pylist()
                for one, has_one in zip(fresh, has_dlh, strict=True):
                    self._capture.keep(one, DLH_LENGTH if has_one else 0)
                stray = pc.not_equal(rows.column("class"), run.queue_kind.acts_on.value)
                if selection is not None:
                    is_meant = selection.select(rows)
                    self._writer.write_chosen(rows.column("browse_seq").filter(is_meant))
                    stray = pc.and_(stray, is_meant)
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
                (*self._matches.names, *self._capture.asked),
            )
            batch: list[NumberedMessage] = []
            held, count = 0, self._writer.count
            for sighted in number_messages(cursor):
                count(sighted.message_key, sighted.browsed.total_length)
                batch.append(sighted)
                held += len(sighted.browsed.prefix)
                if len(batch) == _MAX_BATCH_MESSAGES or held >= _MAX_BATCH_BYTES:
                    yield batch
                    batch, held = [], 0
                if sighted.browse_seq % PROGRESS_EVERY == 0:
                    self._progress(f"{sighted.browse_seq} messages browsed")
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
        names = ("snapshot_id", "outcome", "rule", "action", "target_q", "target_q_mgr")
        of_lots = {name: [getattr(lot, name) for lot in known] for name in names}
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
        longest, of_all = inquire_lengths(self._queue_manager, self._run.queue)
        if longest < of_all:
            self._progress(
                f"warning: MAXMSGL of {self._run.queue} is {longest}, that of the queue manager"
                f" {of_all}: longer messages are cut or refused when they are dead-lettered;"
                f" ALTER QLOCAL({self._run.queue}) MAXMSGL({of_all}) keeps them whole"
            )
        return min(longest, of_all)


# The stage snapshot: take a run's snapshot, and decide whether there is anything to evaluate.


def snapshot_queue(execution: Execution, options: SnapshotOptions) -> lake.SnapshotManifest | None:
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
    taken = ledger.snapshots.of_run(run.run_id)
    for warning in check_named_messages(run, place, taken.absent if taken else 0):
        log.warning("%s", warning)
    record_causes(run, ledger=ledger)
    if manifest.full or run.dry_run or has_open_units(run, ledger):
        return manifest
    settle(execution)
    log.info(
        "nothing new: %d messages, all settled; the other tasks are skipped", manifest.messages
    )
    return None


def locate_snapshot(manifest: lake.SnapshotManifest, lake_root: str) -> dict[str, str | int]:
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
_SHOWN_DIGITS = 12
"""How many digits of a message_key are shown; they distinguish messages well enough for people."""


def check_named_messages(run: Run, location: str, absent: int = 0) -> Iterator[str]:
    """Yield warnings about messages that the run is for and will not act on.

    `absent` of those that met its condition are not on the queue. Raises HandlerError if none is,
    or if the given action cannot be carried out on one that is named.
    """
    if run.condition:
        yield from _check_condition(run, location, absent)
    named, place = run.named, f"{run.queue} of {run.queue_manager}"
    if not named:
        return
    classes = dict(_find_named_messages(run, location))
    if not classes:
        raise HandlerError(
            "MQDLQ-120",
            f"none of the messages named in message_keys is on {place}: they have left the queue,"
            " or the keys are not those of the JSON report; name messages that are on the queue",
        )
    if gone := named - set(classes):
        keys = _format_keys(gone)
        yield f"{len(gone)} of {len(named)} named messages are not on {place}: {keys}"
    if run.has_given_action:
        check_given_action(run, location)
    elif strays := [key for key, cls in classes.items() if cls != run.queue_kind.acts_on]:
        yield (
            f"{len(strays)} of {len(named)} named messages {_STRAYING[run.queue_kind]}, so that no"
            f" rule applies to them; they stay unless `action` is given: {_format_keys(strays)}"
        )


def _check_condition(run: Run, location: str, absent: int) -> Iterator[str]:
    chosen, place = chosen_of(lake.Snapshot.at(location)), f"{run.queue} of {run.queue_manager}"
    if chosen is None or not len(chosen):
        raise HandlerError(
            "MQDLQ-527",
            f"none of {run.meant} is on {place} and fit for the action; look at the condition, and"
            " at what became of the messages, on the handler's page",
        )
    if absent:
        yield f"{absent} messages that met the condition are not on {place} any more"


def check_given_action(run: Run, location: str) -> None:
    """Raise HandlerError if a given action cannot be carried out on a named message."""
    if not (run.named and run.has_given_action):
        return
    found = _find_named_messages(run, location)
    classes = dict(found)
    if run.repair and (invalid := [key for key, cls in classes.items() if cls not in REPAIRABLE]):
        raise HandlerError(
            "MQDLQ-522",
            f"repair is refused for {len(invalid)} of {len(run.named)} named messages, whose MQDLH"
            f" is not valid: {_format_keys(invalid)}; name messages with a valid MQDLH or with"
            " none",
        )
    repair = read_repair(run.repair)
    if repair is not None and repair.body_sha256 and len(found) > 1:
        raise HandlerError(
            "MQDLQ-533",
            f"{len(found)} equal messages have the key {_format_keys(classes)}, and a body is"
            " replaced for one message alone; deliver or discard the others first",
        )
    without = [key for key, cls in classes.items() if cls != MessageClass.DEAD_LETTER]
    if without and (needed := needs_a_dlh(parse(run.rules_text, frozen=True).rules[0])):
        raise HandlerError(
            "MQDLQ-121",
            f"{needed} is refused for {len(without)} of {len(run.named)} named messages, which"
            f" have no valid MQDLH: {_format_keys(without)}; forward such messages to a queue given"
            " by its name, discard or ignore them",
        )


def _find_named_messages(run: Run, location: str) -> list[tuple[bytes, str]]:
    """Return the key and the class of each named message; equal messages have one key."""
    named = run.named
    return [
        (row["message_key"], row["class"])
        for row in lake.snapshot_rows(location, ["message_key", "class"])
        if row["message_key"] in named
    ]


def _format_keys(keys: Iterable[bytes]) -> str:
    return ", ".join(f"{key[:_SHOWN_DIGITS]}…" for key in sorted(key.hex() for key in keys))


# Record in the ledger why the messages of a snapshot are dead letters.

MOST_CAUSES_RECORDED: Final = 1_000
"""How many causes of a run have their own row in the ledger; the others have one for each reason.

A run with 10,000 destinations would add 10,000 rows to the ledger each time, and a list of so many
causes helps nobody.
"""


def record_causes(run: Run, *, ledger: Ledger) -> None:
    """Record once why the messages of a run are dead letters, those settled by earlier runs too.

    A run for some messages records these only. If the rows of settled messages cannot be read,
    the other messages are recorded without them. A run for the whole queue books for the inbox what
    is on the queue, too.
    """
    snapshot = ledger.snapshots.of_run(run.run_id)
    if snapshot is None or ledger.snapshots.causes(run.run_id):
        return
    try:
        found = _count(snapshot.location, with_settled=not run.is_for_some)
    except (LakeError, OSError):  # the report says what is missing
        found = _count(snapshot.location, with_settled=False)
    ledger.snapshots.record_causes(run.run_id, found)
    if is_of_whole_queue(run):
        book_causes(run, ledger)


def _count(location: str, *, with_settled: bool) -> list[CountedCause]:
    counter = CauseCounter()
    for batch in chosen_batches(location, COLUMNS):
        for row in batch.to_pylist():
            counter.add_row(row)
    if with_settled:
        for row in lake.full_rows_of_settled(location, COLUMNS):
            counter.add_row(row, is_settled=True)
    return counter.counted(MOST_CAUSES_RECORDED)


# Find the browsed messages that the ledger knows as settled and that need only a compact row.

_ENTRY: Final = np.dtype(
    [("key", "S32"), ("message_id", "i8"), ("occurrence", "i4"), ("lot", "i4")]
)


class _SettledMessages:
    """The settled messages of a run's queue that need no full row in this run.

    Each takes 65 bytes, sorted by key: a million messages take as much memory as one long message.
    """

    def __init__(
        self, execution: Execution, options: SnapshotOptions, selection: Selection | None
    ) -> None:
        self._run, self._ledger = execution.run, execution.ledger
        self._lake_root, self._options, self.selection = execution.lake_root, options, selection
        self.lots: list[Row] = []
        self._sort_entries(np.empty(0, _ENTRY))

    def load(self, now: datetime) -> str:
        """Read the settled messages; return why all messages are read in full instead, or ""."""
        since = self._ledger.snapshots.last_complete(self._run)
        if since is None:
            return ""
        if self._options.rescan:
            return "it was requested"
        if self.selection is not None and self.selection.wanted is None:
            return "the condition of the run is met by full rows"
        if now - since >= self._options.full_every:
            return f"the last one was at {since:%Y-%m-%d %H:%M:%S} UTC"
        if treatment_changes(self._run.rules_text):
            return "the rules compare ages, remaining expiry or attempts"
        lots = self._ledger.settled.lots_for(self._run)
        standing = {name: self._is_in_lake(name) for name in {lot.snapshot_id for lot in lots}}
        self.lots = [lot for lot in lots if standing[lot.snapshot_id]]
        parts = list(self._read_entries())
        if parts:
            self._sort_entries(np.concatenate(parts))
        return "" if lots else "no message is settled under the current rules"

    def match(self, keys: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """Return for each key, in browse order, its entry, or -1 for an unsettled message.

        Equal messages match as many entries as there are.
        """
        found = np.full(len(keys), -1)
        if not len(self._keys):
            return found
        known = self._keys.find(np.array(keys, "S32"))
        order = np.argsort(known, kind="stable")
        alike = known[order]
        places = self._next[alike] + np.arange(len(alike)) - np.searchsorted(alike, alike)
        fits = (alike >= 0) & (places < self._ends[alike])
        found[order[fits]] = places[fits]
        np.add.at(self._next, alike[fits], 1)
        return found

    def entries(self, places: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        """Return the occurrences of entries and their lots, as positions in `lots`."""
        return self._occurrences[places], self._lots[places]

    def _read_entries(self) -> Iterator[npt.NDArray[Any]]:
        selection = self.selection
        for number, lot in enumerate(self.lots):
            for messages in self._ledger.settled.of_lot(lot.lot_id):
                part = np.empty(len(messages), _ENTRY)
                part["key"] = [message.message_key for message in messages]
                part["message_id"] = [message.message_id for message in messages]
                part["occurrence"] = [message.occurrence for message in messages]
                part["lot"] = number
                if selection is not None and selection.wanted is not None:
                    # The messages that a run is for are read in full.
                    part = part[selection.wanted.find(part["key"]) < 0]
                yield part

    def _sort_entries(self, entries: npt.NDArray[Any]) -> None:
        """Sort by key and occurrence; if a message was settled twice, the later entry counts."""
        order = np.lexsort((entries["lot"], entries["message_id"]))
        entries = entries[order]
        last = np.append(entries["message_id"][1:] != entries["message_id"][:-1], True)
        entries = entries[last[: len(entries)]]
        entries = entries[np.lexsort((entries["occurrence"], entries["key"]))]
        self._occurrences, self._lots = entries["occurrence"].copy(), entries["lot"].copy()
        self._keys = KeySet([entries["key"]])
        self._ends = np.cumsum(self._keys.numbers)
        self._next = self._ends - self._keys.numbers

    def _is_in_lake(self, snapshot_id: str) -> bool:
        try:
            lake.find_snapshot(self._lake_root, snapshot_id)
        except LakeError:
            return False
        return True
