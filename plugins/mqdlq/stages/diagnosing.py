"""Diagnose causes on a handler's queue, and keep in the ledger what each diagnosis found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from mqdlq.causes import Cause
from mqdlq.diagnosis import Diagnosis, Subject, diagnose
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import KnownDiagnosis
from mqdlq.mqi.connect import ConnectionSettings, connect

MOST_CAUSES: Final = 5
"""How many causes of a queue are diagnosed at once: those with the most messages."""


class Place(NamedTuple):
    """The queue of a handler on which the messages of causes are."""

    handler: str
    queue_manager: str
    queue: str


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


def keep_diagnoses(place: Place, found: Mapping[Cause, Diagnosis], ledger: Ledger) -> None:
    """Keep diagnoses; one that finds what the last one found extends the time of that one."""
    for cause, one in found.items():
        last = next(iter(known_diagnoses(place, cause.cause_id, ledger)), None)
        is_same = last is not None and (last.verdict, last.facts) == (one.verdict, one.facts)
        kept = KnownDiagnosis(*place, cause.cause_id, one.at, one.at, json.dumps(one.as_record()))
        ledger.diagnoses.keep(kept, extends_last=is_same)


def known_diagnoses(place: Place, cause_id: str, ledger: Ledger) -> Iterable[Diagnosis]:
    """Yield what diagnoses of a cause found, the last one first."""
    for kept in ledger.diagnoses.of_cause(*place, cause_id):
        yield Diagnosis.of_record(json.loads(kept.found))
