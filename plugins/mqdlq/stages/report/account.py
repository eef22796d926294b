"""The account of a run: the messages of its snapshot in, the sum and what it lacks out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from mqdlq.ledger import Sighting
from mqdlq.model import DEPARTED, Outcome, Trait
from mqdlq.stages.report.gathering import Gathered
from mqdlq.stages.report.records import Account, LastBrowse
from mqdlq.stages.report.sources import Sources
from mqdlq.stages.report.words import count, numbers

_ON_THE_QUEUE: Final = Outcome.having(Trait.STAYS)
_PERHAPS_ON_THE_QUEUE: Final = frozenset(Outcome) - _ON_THE_QUEUE - DEPARTED


def account_of(sources: Sources, gathered: Gathered) -> Account | None:
    """Do the sum, None where there is no snapshot to account for.

    Every message has one outcome; those booked as left were met by the last browse, those booked
    as departed were not. A browse that never happened proves nothing and counts as a difference.
    """
    if sources.snapshot is None:
        return None
    booked = Counter(gathered.booked)
    for settled, number in sources.parked.items():
        booked[settled.outcome] += number
    total, missing = sources.snapshot.messages, gathered.unaccounted.browse_seqs
    if sources.is_for_named and not sources.parked and sources.manifest is not None:
        booked[Outcome.NOT_SELECTED] = total - gathered.full_rows  # it broke off before it booked
    not_selected = booked[Outcome.NOT_SELECTED]
    differences = [*_sum_differences(total, booked.total(), numbers(missing))]
    if total:
        differences.extend(_browse_differences(booked, sources.sighting))
    return Account(
        messages=total,
        outcomes={
            one: booked[one] for one in Outcome if booked[one] and one is not Outcome.NOT_SELECTED
        },
        last_browse=_last_browse(sources.sighting),
        differences=tuple(differences),
        parked=sum(sources.parked.values()) - not_selected if sources.parked else 0,
        not_selected=not_selected,
    )


def _sum_differences(total: int, booked: int, missing: str) -> Iterator[str]:
    if booked < total:
        which = f": messages {missing}" if missing else ""
        have = "has" if total - booked == 1 else "have"
        yield f"{total - booked:,} of {count(total, 'message')} {have} no outcome{which}"
    if booked > total:
        yield f"{count(booked, 'outcome')} for {count(total, 'message')}"


def _browse_differences(booked: Counter[Outcome], sighting: Sighting | None) -> Iterator[str]:
    if sighting is None:
        yield "the queue was not browsed again, so nothing is proven"
        return
    if sighting.returned:
        are = (
            "message booked as departed is"
            if sighting.returned == 1
            else ("messages booked as departed are")
        )
        yield f"{sighting.returned:,} {are} on the queue"
    expected = sum(booked[outcome] for outcome in _ON_THE_QUEUE)
    at_most = expected + sum(booked[outcome] for outcome in _PERHAPS_ON_THE_QUEUE)
    if not expected <= sighting.seen <= at_most:
        yield (
            f"{count(expected, 'message')} booked as left on the queue, "
            f"but {sighting.seen:,} met there"
        )


def _last_browse(sighting: Sighting | None) -> LastBrowse | None:
    if sighting is None:
        return None
    return LastBrowse(
        sighting.depth, sighting.seen, sighting.returned, sighting.arrived, sighting.at
    )
