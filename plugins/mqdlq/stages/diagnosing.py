"""Diagnose causes on a handler's queue, and keep in the ledger what each diagnosis found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from mqdlq.causes import Cause
from mqdlq.diagnosis.diagnosing import diagnose
from mqdlq.diagnosis.keeping import Place, keep
from mqdlq.diagnosis.obstacles import Subject
from mqdlq.diagnosis.records import Diagnosis
from mqdlq.diagnosis.subjects import read_subjects
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Run
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.words import cause_in_words

MOST_CAUSES: Final = 5
"""How many causes of a queue are diagnosed at once: those with the most messages."""


def diagnose_causes(
    settings: ConnectionSettings,
    subjects: Mapping[Cause, Subject],
    clock: Callable[[], datetime],
) -> dict[Cause, Diagnosis]:
    """Diagnose causes by read-only inquiries over one connection.

    Raises QueueManagerError, ConnectionSettingsError and ClientNotFoundError if the queue manager
    cannot be reached.
    """
    with connect(settings) as queue_manager:
        return {
            cause: diagnose(queue_manager, subject, clock, user=settings.user)
            for cause, subject in subjects.items()
        }


def diagnose_run(
    run: Run, settings: ConnectionSettings, ledger: Ledger, clock: Callable[[], datetime]
) -> None:
    """Diagnose the largest causes of a run's snapshot that need attention, and keep the result.

    Raises what `diagnose_causes` raises, and LakeError.
    """
    taken = ledger.snapshots.of_run(run.run_id)
    needed = {row.numbers.cause_id for row in ledger.inbox.of_queue(run) if row.numbers.attention}
    if taken is None or not needed:
        return
    found = read_subjects(taken.location, run.queue)
    chosen = [cause for cause in found if cause.cause_id in needed][:MOST_CAUSES]
    place = Place(run.handler, run.queue_manager, run.queue)
    subjects = {cause: found[cause] for cause in chosen}
    keep_diagnoses(place, diagnose_causes(settings, subjects, clock), ledger)


def keep_diagnoses(place: Place, found: Mapping[Cause, Diagnosis], ledger: Ledger) -> None:
    for cause, one in found.items():
        keep(place, cause, cause_in_words(cause), one, ledger)
