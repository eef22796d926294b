"""Test on random ledgers that a prune removes what the policy says and nothing protects, only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqdlq.lake.archive import Copy, file_in_lake, read_back, write_copies
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import (
    AcceptedPlan,
    Approval,
    Attempt,
    CopyState,
    Look,
    OutcomeFact,
    Restoration,
    Sighting,
    TakenSnapshot,
)
from mqdlq.model import Action, AttemptState, Disposition, Outcome, RestorationState
from mqdlq.reasons import Why
from mqdlq.stages.retention import Pruner
from tests.support.retention import policy
from tests.support.run_records import NOON, run_record
from tests.support.world import create_ledger

pytestmark = pytest.mark.slow

DAY = timedelta(days=1)
DEPARTED = {Outcome.DELIVERED, Outcome.DISCARDED, Outcome.TAKEN}
KINDS = [*DEPARTED, Outcome.UNMATCHED, Outcome.RETRY_PENDING, Outcome.UNKNOWN]


@dataclass(frozen=True)
class Letter:
    """A message of a run: its key, its outcome, and the state of its DISCARD if it has a copy."""

    key: int
    outcome: Outcome
    discard: AttemptState | None


@dataclass(frozen=True)
class Described:
    """A run for the ledger; `restored` is the last state of a restoration."""

    age: int
    is_closed: bool
    has_snapshot: bool
    is_asked: bool
    is_leased: bool
    is_held: bool
    restored: RestorationState | None
    letters: tuple[Letter, ...]


letters = st.builds(
    Letter,
    st.integers(0, 3),
    st.sampled_from(KINDS),
    st.sampled_from([None, AttemptState.CONFIRMED, AttemptState.FAILED, AttemptState.INTENDED]),
)
rarely = st.sampled_from([False, False, False, True])
runs = st.builds(
    Described,
    st.integers(1, 30),
    st.sampled_from([True, True, True, False]),
    rarely,
    rarely,
    rarely,
    rarely,
    st.sampled_from([None, None, *RestorationState]),
    st.lists(letters, max_size=3, unique_by=lambda one: one.key).map(tuple),
)
limits = st.none() | st.integers(2, 25)
UNKNOWN_BESIDE_DISCARDED = [
    Described(age, True, False, False, False, False, None, (Letter(number, outcome, None),))
    for age, number, outcome in ((30, 0, Outcome.UNKNOWN), (1, 1, Outcome.DISCARDED))
]


def key(number: int) -> bytes:
    return bytes([number]) * 32


@dataclass
class Built:
    """A ledger and a lake with the described runs, and the ids of their messages."""

    ledger: Ledger
    lake_root: str
    described: dict[str, Described]
    ids: dict[str, dict[int, int]]

    def add(self, run_id: str, one: Described) -> None:
        """Record a run as its stages would have done."""
        at = NOON - one.age * DAY
        run = run_record(run_id=run_id, started_at=at)
        ledger = self.ledger
        ledger.runs.record(run)
        ledger.runs.record_look(run_id, Look(len(one.letters), True, "messages", at))
        ledger.snapshots.record(TakenSnapshot(run_id, f"s-{run_id}", "lake/s", 0, at))
        rows = [(n, key(a.key), Disposition.PLANNED) for n, a in enumerate(one.letters, 1)]
        ledger.plans.record(run, AcceptedPlan(run_id, f"p-{run_id}", "h", "lake/p", at), rows)
        if not one.has_snapshot:
            ledger.snapshots.record_pruned([f"s-{run_id}"], at)
        if one.is_asked:
            ledger.plans.record_approval(run_id, Approval("h", (), "asked", "", at))
        self._end(run_id, one, at)

    def _end(self, run_id: str, one: Described, at: datetime) -> None:
        ledger = self.ledger
        found = {m.message_key[0]: m.message_id for m in ledger.messages.of_run(run_id)}
        self.described[run_id], self.ids[run_id] = one, found
        if one.is_leased and found:
            ledger.messages.lease(run_id, found.values(), NOON + DAY)
        for letter in one.letters:
            self._book(run_id, letter, found[letter.key], at)
        copied = [a for a in one.letters if a.discard is not None]
        if copied:
            copies = (Copy(found[a.key], b"d" * 364, b"body") for a in copied)
            location, digests = write_copies(self.lake_root, run_id, "c", copies)
            ledger.archive.record(run_id, location, digests, at)
        if one.restored is not None and copied:
            self._restore(run_id, one.restored, at)
        if one.is_closed:
            ledger.accounts.record(run_id, Sighting(0, 0, 0, 0, at))
        if one.is_held:
            ledger.holds.add(run_id=run_id, reason="r", who="w", at=at)

    def _book(self, run_id: str, letter: Letter, message_id: int, at: datetime) -> None:
        attempt = Attempt(
            1, Action.DISCARD, "", "", f"u-{run_id}-{letter.key}", run_id, f"p-{run_id}",
            message_id, key(letter.key), 1, AttemptState.INTENDED, 0, at,
        )  # fmt: skip
        if letter.discard is not None:
            states = [AttemptState.INTENDED, letter.discard][: 1 + (letter.discard != "intended")]
            self.ledger.attempts.add([replace(attempt, state=state) for state in states])
        fact = OutcomeFact(
            1, "DISCARD", "", "", letter.outcome, message_id, Why.ATTEMPT(number=1), at
        )
        self.ledger.outcomes.add(run_id, [fact])

    def _restore(self, run_id: str, state: RestorationState, at: datetime) -> None:
        copies = self.ledger.archive.copies(run_id=run_id)
        wanted = Restoration(
            restoration_id=f"x-{run_id}",
            handler="demo",
            queue_manager="QM1",
            queue="DLQ",
            state_queue="S",
            run_id=run_id,
            to_queue="DLQ",
            started_at=at,
        )
        self.ledger.restorations.record(wanted, copies)
        states = [CopyState(*copy.key, state, at, f"u-x-{run_id}") for copy in copies]
        self.ledger.restorations.add_states(wanted.restoration_id, states)


@contextmanager
def built(described: list[Described]) -> Iterator[Built]:
    """Build the runs, oldest first, and a run of today that takes every role of a newest run."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        create_ledger(directory / "ledger.db")
        with open_ledger(f"sqlite:///{directory}/ledger.db") as ledger:
            made = Built(ledger, f"{directory}/lake", {}, {})
            for number, one in enumerate(sorted(described, key=lambda one: -one.age)):
                made.add(f"r{number}", one)
            made.add("today", Described(0, True, True, False, False, False, None, ()))
            ledger.runs.record_pass("today", NOON)
            ledger.plans.record_approval("today", Approval("h", (), "approved", "w", NOON))
            yield made


def departed_in(built: Built, run_id: str) -> set[int]:
    """Return the messages that a run proves to have left the queue."""
    return {
        built.ids[run_id][one.key]
        for one in built.described[run_id].letters
        if one.outcome in DEPARTED or one.discard is AttemptState.CONFIRMED
    }


def expected_copies(built: Built, keep_for: int | None) -> set[tuple[str, int]]:
    """Return the copies that must go: by the promises, not by the code."""
    open_states = {
        RestorationState.SELECTED,
        RestorationState.INTENDED,
        RestorationState.BACKED_OUT,
        RestorationState.UNKNOWN,
    }
    return {
        (run_id, built.ids[run_id][letter.key])
        for run_id, one in built.described.items()
        for letter in one.letters
        if keep_for is not None
        and one.age > keep_for
        and letter.discard is AttemptState.CONFIRMED
        and one.is_closed
        and not one.is_held
        and one.restored not in open_states
    }


def expected_runs(built: Built, keep_for: int | None, gone: set[tuple[str, int]]) -> set[str]:
    """Return the runs that must go."""
    left = set().union(*(departed_in(built, run_id) for run_id in built.described))
    pending: dict[int, str] = {}
    for run_id, one in built.described.items():  # the newest outcome of a message holds
        for letter in one.letters:
            pending[built.ids[run_id][letter.key]] = run_id
    going = set()
    for run_id, one in built.described.items():
        ids = built.ids[run_id]
        is_live = any(
            letter.discard is AttemptState.INTENDED
            or (letter.discard is not None and (run_id, ids[letter.key]) not in gone)
            or (letter.outcome is Outcome.UNKNOWN and ids[letter.key] not in left)
            or (
                letter.outcome is Outcome.RETRY_PENDING
                and ids[letter.key] not in left
                and is_last(built, run_id, ids[letter.key])
            )
            for letter in one.letters
        )
        is_kept = (
            not one.is_closed
            or one.has_snapshot
            or one.is_asked
            or one.is_held
            or (one.is_leased and one.letters)
            or is_live
        )
        if keep_for is not None and one.age > keep_for and not is_kept:
            going.add(run_id)
    while kept_after_all := {
        run_id
        for run_id in going
        for other in built.described.keys() - going
        if departed_in(built, run_id) & set(built.ids[other].values())
    }:
        going -= kept_after_all
    return going


def is_last(built: Built, run_id: str, message_id: int) -> bool:
    """Whether no run that is newer has an outcome of a message."""
    age = built.described[run_id].age
    return not any(
        message_id in built.ids[other].values() and one.age < age
        for other, one in built.described.items()
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(runs, max_size=7), limits, limits)
@example(UNKNOWN_BESIDE_DISCARDED, None, 2)
def test_a_prune_removes_what_the_policy_says_and_nothing_else(
    described: list[Described], archive: int | None, keep_runs: int | None
) -> None:
    with built(described) as made:
        ledger = made.ledger
        copies = expected_copies(made, archive)
        going = expected_runs(made, keep_runs, copies)
        before = {copy.key: copy for copy in ledger.archive.copies()}
        pruner = Pruner(ledger, made.lake_root, lambda: NOON, "w", lambda _: None)

        keeping = policy(archive=archive, runs=keep_runs, name="demo")
        planned = pruner.prune([keeping], is_dry_run=True)
        done = pruner.prune([keeping])
        again = pruner.prune([keeping])

        kept = {copy.key for copy in ledger.archive.copies() if copy.pruned_at is None}
        assert kept == {one for one in before if one not in copies}
        for one in kept:
            place = file_in_lake(made.lake_root, before[one].location)
            assert read_back(place)[one[1]] == before[one].digest
        assert {r for r in made.described if ledger.runs.get(r) is None} == going
        for told in (planned, done):
            assert sum(result.copies for result in told) == len(copies)
            assert {r for result in told for r in result.run_ids} == going
        assert not any(result.copies or result.run_ids for result in again)
        with ledger.engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
