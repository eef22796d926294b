"""Keep in the ledger what diagnoses find, and read it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from mqdlq.causes import Cause
from mqdlq.diagnosis.records import Diagnosis, changes
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import KnownDiagnosis

MOST_SHOWN: Final = 10
"""How many diagnoses of a cause people see."""


class Place(NamedTuple):
    """The queue of a handler on which the messages of causes are."""

    handler: str
    queue_manager: str
    queue: str


def keep(place: Place, cause: Cause, words: str, found: Diagnosis, ledger: Ledger) -> None:
    """Keep a diagnosis of a cause; one that finds what the last one found extends its time."""
    last = next(known_diagnoses(place, cause.cause_id, ledger), None)
    is_same = last is not None and (last.outlook, last.facts) == (found.outlook, found.facts)
    record = json.dumps({"cause": words} | found.as_record())
    kept = KnownDiagnosis(*place, cause.cause_id, found.at, found.at, record)
    ledger.diagnoses.keep(kept, extends_last=is_same)


def known_diagnoses(place: Place, cause_id: str, ledger: Ledger) -> Iterator[Diagnosis]:
    """Yield what diagnoses of a cause found, the last one first."""
    for kept in ledger.diagnoses.of_cause(*place, cause_id):
        yield Diagnosis.of_record(kept.record)


def with_changes(place: Place, cause_id: str, ledger: Ledger) -> list[tuple[Diagnosis, list[str]]]:
    """Return the last diagnoses of a cause, the last one first, each with what changed before."""
    found = [*islice(known_diagnoses(place, cause_id, ledger), MOST_SHOWN)]
    return [
        (one, list(changes(last.facts, one.facts)) if last else [])
        for one, last in zip(found, [*found[1:], None], strict=False)
    ]
