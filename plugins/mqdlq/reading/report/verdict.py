"""Make the account of a run, and judge the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mqdlq.failures import Failure
from mqdlq.ledger.tables.runs import Sighting
from mqdlq.model import DEPARTED, Action, Outcome, Trait, Verdict
from mqdlq.reading.report.report_records import Account, LastBrowse
from mqdlq.reading.report.report_sources import Sources
from mqdlq.words import count, moment, numbers

_ON_THE_QUEUE: Final = Outcome.having(Trait.STAYS)
_PERHAPS_ON_THE_QUEUE: Final = frozenset(Outcome) - _ON_THE_QUEUE - DEPARTED


@dataclass(frozen=True, slots=True)
class Tally:
    """The numbers of a run's own messages, from which its account is made.

    `booked` counts their outcomes, `missing` has the browse_seqs of those without one, `full_rows`
    is their number. `attention` messages need attention. `only_dry_run` counts by action the
    messages that nothing but the dry run kept from being acted on.
    """

    booked: Counter[Outcome]
    missing: Iterable[int]
    full_rows: int
    attention: int
    only_dry_run: Counter[str]

    @property
    def would_be_left(self) -> int:
        """How many messages a rule would leave if this were not a dry run."""
        return self.only_dry_run[Action.IGNORE]


def is_untouched(sources: Sources, tally: Tally) -> bool:
    """Whether a run has begun no unit of work, and has booked no outcome."""
    return not (sources.has_attempts or tally.booked or sources.sighting)


def account_of(sources: Sources, tally: Tally) -> Account | None:
    """Make the account; None if there is no snapshot to account for.

    Every message has one outcome; those booked as left were met by the last browse, those booked
    as departed were not. A browse that never happened proves nothing and counts as a difference.
    """
    if sources.snapshot is None:
        return None
    booked = Counter(tally.booked)
    for settled, number in sources.settled.items():
        booked[settled.outcome] += number
    total, missing = sources.snapshot.messages, tally.missing
    if sources.is_for_named and not sources.settled and sources.manifest is not None:
        booked[Outcome.NOT_SELECTED] = total - tally.full_rows  # it broke off before it booked
    not_selected = booked[Outcome.NOT_SELECTED]
    which = numbers(missing)
    differences = [*_sum_differences(total, booked.total(), which)]
    if total:
        differences.extend(_browse_differences(booked, sources.sighting))
    return Account(
        messages=total,
        outcomes={
            one: booked[one] for one in Outcome if booked[one] and one is not Outcome.NOT_SELECTED
        },
        last_browse=_last_browse(sources.sighting),
        differences=tuple(differences),
        settled=sum(sources.settled.values()) - not_selected if sources.settled else 0,
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
            f"but the last browse saw {sighting.seen:,}"
        )


def _last_browse(sighting: Sighting | None) -> LastBrowse | None:
    if sighting is None:
        return None
    return LastBrowse(
        sighting.depth, sighting.seen, sighting.returned, sighting.arrived, sighting.at
    )


Judgement = tuple[Verdict, str, str]
"""Verdict, headline, and why a run failed ("" where it did not)."""


def judge(
    sources: Sources,
    tally: Tally,
    account: Account | None,
    stages: Mapping[str, str],
    failures: Sequence[Failure] = (),
) -> Judgement:
    """Judge a run by its stages, its account, and whether messages need attention.

    Only a run whose stages did not fail and whose account adds up is not failed. Where `stages`
    are not known and no last browse closed the account, it is unfinished.
    """
    failed = [failure.task for failure in failures]
    faults = [failure.summary for failure in failures]
    is_open = not faults and not stages and sources.sighting is None
    if sources.run is None:
        headline = f"The run failed{_at(failed)}; nothing was touched."
        return Verdict.FAILED, headline, "; ".join(faults or ["the ledger has no such run"])
    if not faults and not sources.troubles and _is_empty(sources, stages):
        is_settled = sources.snapshot is None and sources.look is not None and sources.look.depth
        return Verdict.SETTLED if is_settled else Verdict.EMPTY, _empty(sources), ""
    if account is None:
        headline = _without_account(sources, failed, is_open)
        faults = [*(faults or ["no snapshot was taken"]), *sources.troubles]
    else:
        headline = _headline(sources, tally, account, failed)
        faults = [*faults, *account.differences, *sources.troubles]
    return _verdict(faults, is_open, tally.attention), headline, "; ".join(faults)


def _is_empty(sources: Sources, stages: Mapping[str, str]) -> bool:
    if sources.snapshot is None:
        saw_no_work = sources.look is not None and not sources.look.is_work
        return saw_no_work or stages.get("snapshot") == "skipped"
    return not sources.snapshot.messages


def _verdict(faults: list[str], is_open: bool, attention: int) -> Verdict:
    if faults:
        return Verdict.UNFINISHED if is_open else Verdict.FAILED
    return Verdict.ATTENTION if attention else Verdict.OK


def _without_account(sources: Sources, failed: list[str], is_open: bool) -> str:
    if sources.snapshot is not None and sources.run is not None:
        messages = count(len(sources.run.message_keys) or sources.snapshot.messages, "message")
        return f"The run ended{_at(failed)}: none of {messages} was acted on; nothing was touched."
    if is_open:
        return "No snapshot was taken: the queue was empty, or the run did not get that far."
    return f"The run ended{_at(failed)} before it took a snapshot; nothing was touched."


def _headline(sources: Sources, tally: Tally, account: Account, failed: list[str]) -> str:
    parts = ", ".join(_parts(sources, tally, account))
    sum_ = "adds up" if account.adds_up else "does not add up"
    stages = f" The run failed{_at(failed)}." if failed else ""
    number = count(account.selected, "message")
    of = f" of {account.messages:,} selected" if account.not_selected else ""
    return f"{number}{of}: {parts}. The account {sum_}.{stages}"


def _parts(sources: Sources, tally: Tally, account: Account) -> Iterator[str]:
    """Yield the parts of the sum that an operator cares about; they add up to the snapshot."""
    attention = tally.attention
    handled = sum(n for outcome, n in account.outcomes.items() if Trait.SUCCEEDED in outcome.traits)
    if handled or not _is_dry_run(sources):
        yield f"{handled:,} handled"
    if attention:
        yield f"{attention:,} {'needs' if attention == 1 else 'need'} attention"
    if _is_dry_run(sources):
        yield from _in_a_dry_run(tally)
    for outcome, number in account.outcomes.items():
        if not outcome.traits & (Trait.SUCCEEDED | Trait.NEEDS_ATTENTION):
            yield f"{number:,} {outcome.words}"
    if account.booked < account.messages:
        yield f"{account.messages - account.booked:,} without an outcome"


def _in_a_dry_run(tally: Tally) -> Iterator[str]:
    left = tally.would_be_left
    yield f"{tally.only_dry_run.total() - left:,} would be acted on"
    if left:
        yield f"{left:,} would be left by rule"


def _is_dry_run(sources: Sources) -> bool:
    return sources.run is not None and sources.run.dry_run


def _empty(sources: Sources) -> str:
    assert sources.run is not None  # noqa: S101 (the caller has looked)
    if sources.snapshot is None and sources.look is not None:
        depth, at = sources.look.depth, sources.look.at
    else:
        depth = 0
        at = sources.snapshot.taken_at if sources.snapshot else sources.run.started_at
    if sources.look is not None and sources.look.why and not sources.look.is_work:
        return sources.look.why
    if depth:
        settled = f"{count(depth, 'message')} on the queue, all settled by earlier runs"
        return f"Nothing new: {settled}; last checked {moment(at)}."
    return f"Queue empty, last checked {moment(at)}."


def _at(failed: list[str]) -> str:
    return f" at {failed[0]}" if failed else ""
