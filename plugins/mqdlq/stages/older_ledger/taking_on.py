"""Take on an older ledger: begin an epoch, and record what the lake knows of the lost time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from mqdlq.lake.works import RecordedWork, newest_work, record_work
from mqdlq.ledger import CopyState, Epoch, Ledger
from mqdlq.model import RestorationState
from mqdlq.stages.execute.pending_steps import load_work_list
from mqdlq.stages.older_ledger.missing import LostFile, LostRestoration, Missing, find_missing
from mqdlq.stages.report.wording import moment


@dataclass(frozen=True, slots=True)
class TakenOn:
    """The epoch that began, and what the ledger missed."""

    epoch: Epoch
    missing: Missing


def take_on(
    ledger: Ledger, lake_root: str, *, who: str, why: str, clock: Callable[[], datetime]
) -> TakenOn:
    """Begin an epoch: from now on this ledger is the newest one of its lake and state queues.

    The ledger records the archive copies of messages that it knows, and copies that a lost
    restoration was to put as `unknown`, so that they are not put again unless a person asks for
    that. Moves are taken on later, from the markers that the next pass finds. If a crash comes in
    between, the same call records the rest. It may be called although nothing is missing: then only
    the state queues may show what the ledger lost.
    """
    missing, newest = find_missing(ledger, lake_root), newest_work(lake_root)
    for file in missing.files:
        _take_on_copies(file, ledger, lake_root)
    now = clock()
    for lost in missing.restorations:
        _take_on_restoration(lost, ledger, now)
    above = newest.number.epoch if newest is not None else 0
    epoch = ledger.epochs.begin(above, who, why, missing.summary, now)
    record_work(lake_root, RecordedWork(epoch.last, f"epoch {epoch.epoch}, taken on by {who}", now))
    return TakenOn(epoch, missing)


def _take_on_copies(file: LostFile, ledger: Ledger, lake_root: str) -> None:
    run = ledger.runs.get(file.run_id)
    if run is None or not file.digests:
        return
    items = load_work_list(run, ledger, lake_root).items if run.repair else []
    changes = [
        item.changes
        for item in items
        if item.changes is not None and item.message.message_id in file.digests
    ]
    ledger.archive.record(run.run_id, file.location, file.digests, file.at, changes)


def _take_on_restoration(lost: LostRestoration, ledger: Ledger, now: datetime) -> None:
    """Record as unknown the copies of a restoration that the ledger has."""
    runs = dict.fromkeys(run_id for run_id, _, _ in lost.copies)
    held = [copy for run_id in runs for copy in ledger.archive.copies(run_id=run_id)]
    wanted = set(lost.copies)
    copies = [one for one in held if (*one.key, one.message_key.hex()) in wanted]
    if not copies:
        return
    name = lost.restoration.restoration_id
    if ledger.restorations.get(name) is None:
        ledger.restorations.record(lost.restoration, copies)
    why = f"recorded on {moment(now)} from the lake, after an older copy of the ledger was restored"
    states = [CopyState(*one.key, RestorationState.UNKNOWN, now, why=why) for one in copies]
    ledger.restorations.add_states(name, states)
