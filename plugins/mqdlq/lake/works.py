"""Traces of a ledger's work in the lake, by which an older copy of the ledger is recognised."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mqdlq.lake import storage
from mqdlq.model import WorkNumber


@dataclass(frozen=True, slots=True)
class RecordedWork:
    """A pass or restoration that was about to begin: its number, its name, and when."""

    number: WorkNumber
    what: str
    at: datetime


def record_work(root: str, work: RecordedWork) -> None:
    """Record the number of work that is about to begin; numbers below it are removed.

    Each number is a file, since object stores cannot update one only if it is lower. Of tasks that
    write at once, each removes lower numbers only, so the highest one stays.
    """
    storage.make_directory(f"{root.rstrip('/')}/ledger")
    text = json.dumps({"what": work.what, "at": work.at.isoformat()})
    storage.write_text(_file(root, work.number), text)
    for number in _numbers(root):
        if number < work.number:
            storage.remove_file(_file(root, number))


def newest_work(root: str) -> RecordedWork | None:
    """Return the work with the highest number in the lake, None if there is none."""
    while numbers := _numbers(root):
        newest = max(numbers)
        if (text := storage.read_text(_file(root, newest))) is not None:
            held = json.loads(text)
            return RecordedWork(newest, held["what"], datetime.fromisoformat(held["at"]))
    return None  # a higher number is written before a lower one is removed


def record_restoration(root: str, work: RecordedWork, plan: Mapping[str, Any]) -> None:
    """Record what an attempt at a restoration is about to put, as JSON."""
    directory = f"{root.rstrip('/')}/restorations"
    storage.make_directory(directory)
    text = json.dumps(plan, default=str)
    storage.write_text(f"{directory}/{work.what}.{work.number}.json", text)


def recorded_restorations(root: str) -> Iterator[dict[str, Any]]:
    for place in storage.matching(root, "/restorations/*.json"):
        if (text := storage.read_text(place)) is not None:
            yield json.loads(text)


def _numbers(root: str) -> list[WorkNumber]:
    places = storage.matching(root, "/ledger/*-*-*.json")
    return [WorkNumber.parse(one.rsplit("/", 1)[-1].removesuffix(".json")) for one in places]


def _file(root: str, number: WorkNumber) -> str:
    return f"{root.rstrip('/')}/ledger/{number}.json"
