"""Record finished runs in a real ledger and a real lake, from messages with their outcomes."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from mqdlq.failures import Failure
from mqdlq.headers import DeadLetterHeader, MessageDescriptor, header_row
from mqdlq.lake import SnapshotWriter
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import (
    AcceptedPlan,
    Attempt,
    Look,
    OutcomeFact,
    Run,
    Sighting,
    TakenSnapshot,
)
from mqdlq.model import DEPARTED, Action, AttemptState, Disposition, Outcome
from mqdlq.reasons import Reason, Why
from tests.support.world import create_ledger, open_for_tests

START = datetime(2026, 11, 21, 2, 49, 22, tzinfo=UTC)
CANARY = "CANARY-OF-A-BODY"
USER = "CANARYUSER"
RULES = """\
* What the demo's handler does
RETRYINT(5) WAIT(NO)

REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)
* held by an operator
REASON(MQRC_PUT_INHIBITED) DESTQ(PAYMENTS.HELD) +
    ACTION(RETRY) RETRY(3)
REASON(MQRC_UNKNOWN_OBJECT_NAME) DESTQ('ORDERS.*') ACTION(FWD) FWDQ(PARKED.ORDERS) HEADER(YES)
DESTQ(QUOTES.STALE) ACTION(DISCARD)
REASON(MQRC_NOT_AUTHORIZED) ACTION(IGNORE)
"""
STAGES = ("sense", "snapshot", "evaluate", "approve", "execute", "retry")
ALL_WELL = dict.fromkeys(STAGES, "success")
Q_FULL, PUT_INHIBITED, NO_QUEUE, NO_AUTHORITY = 2053, 2051, 2085, 2035


def failed_at(stage: str) -> dict[str, str]:
    """Return the states of the stages if one failed and the later ones never ran."""
    at = STAGES.index(stage)
    states = ["success"] * at + ["failed"] + ["upstream_failed"] * (len(STAGES) - at - 1)
    return dict(zip(STAGES, states, strict=True))


def failures(stages: Mapping[str, str], error: str) -> list[Failure]:
    """Return that each failed stage failed with this error; none without an error."""
    failed = [stage for stage, state in stages.items() if state == "failed"]
    return [Failure(stage, error) for stage in failed if error]


def left_no_word_at(stage: str) -> str:
    """Return why a run failed at a stage that has left no word."""
    return (
        f"stage {stage} failed: it was stopped, marked as failed by a person, or its process ended"
        f" before it could say why; see the log of task {stage} in Airflow [MQDLQ-850]"
    )


@dataclass(frozen=True)
class Try:
    """An attempt `after` seconds from the start of the run; it failed where it has an mqrc.

    `rule` is the rule of the message's outcome unless it is given.
    """

    after: float
    mqrc: int = 0
    state: AttemptState | None = None
    rule: int = 0

    @property
    def ended(self) -> AttemptState:
        return self.state or (AttemptState.FAILED if self.mqrc else AttemptState.CONFIRMED)


FIRST_ATTEMPT: Final = Why.ATTEMPT(number=1)
NO_MQDLH: Final = Why.UNPROCESSABLE(problem="no MQDLH, although MQMD.Format is MQDEAD")


@dataclass(frozen=True)
class EndedMessage:
    """A message on the dead-letter queue and its end; `body` replaces MQDLH and all."""

    reason: int = Q_FULL
    dest_q_name: str = "PAYMENTS.IN"
    dest_q_mgr_name: str = "QM1"
    body: bytes | None = None
    put_appl_name: str = "payments"
    user_identifier: str = USER
    outcome: Outcome | None = Outcome.DELIVERED
    why: Reason = FIRST_ATTEMPT
    rule: int = 1
    action: str = "RETRY"
    target_q: str = "PAYMENTS.IN"
    target_q_mgr: str = ""
    tries: Sequence[Try] = field(default_factory=tuple)


def delivered(**changes: Any) -> EndedMessage:
    return replace(EndedMessage(tries=(Try(20.0),)), **changes)


def forwarded(**changes: Any) -> EndedMessage:
    forward = EndedMessage(
        reason=NO_QUEUE,
        dest_q_name="ORDERS.EU",
        outcome=Outcome.FORWARDED,
        rule=3,
        action="FWD",
        target_q="PARKED.ORDERS",
        tries=(Try(21.0),),
    )
    return replace(forward, **changes)


def discarded(**changes: Any) -> EndedMessage:
    letter = EndedMessage(
        reason=NO_QUEUE,
        dest_q_name="QUOTES.STALE",
        outcome=Outcome.DISCARDED,
        rule=4,
        action="DISCARD",
        target_q="",
        tries=(Try(22.0),),
    )
    return replace(letter, **changes)


def exhausted(**changes: Any) -> EndedMessage:
    letter = EndedMessage(
        reason=PUT_INHIBITED,
        dest_q_name="PAYMENTS.HELD",
        outcome=Outcome.EXHAUSTED,
        why=Why.EXHAUSTED(
            attempts=3, last=Why.PUT_FAILED(target="PAYMENTS.HELD", mqrc=2051, advice="")
        ),
        rule=2,
        target_q="PAYMENTS.HELD",
        tries=(Try(20.0, 2051), Try(26.0, 2051), Try(32.0, 2051)),
    )
    return replace(letter, **changes)


def left_by_rule(**changes: Any) -> EndedMessage:
    letter = EndedMessage(
        reason=NO_AUTHORITY,
        dest_q_name="LEDGER.POSTINGS",
        outcome=Outcome.LEFT_BY_RULE,
        why=Why.RULE_IGNORES(rule=5, line=11),
        rule=5,
        action="IGNORE",
        target_q="",
    )
    return replace(letter, **changes)


def unmatched(**changes: Any) -> EndedMessage:
    letter = EndedMessage(
        reason=2030,
        dest_q_name="INVOICES",
        outcome=Outcome.UNMATCHED,
        why=Why.NO_RULE_MATCHES(),
        rule=0,
        action="",
        target_q="",
    )
    return replace(letter, **changes)


def bare(**changes: Any) -> EndedMessage:
    letter = EndedMessage(
        body=CANARY.encode() * 12,
        outcome=Outcome.UNPROCESSABLE,
        why=NO_MQDLH,
        rule=0,
        action="",
        target_q="",
    )
    return replace(letter, **changes)


def truncated(**changes: Any) -> EndedMessage:
    return bare(
        body=b"DLH \1\0\0\0" + bytes(92),
        why=Why.UNPROCESSABLE(problem="MQDLH needs 172 bytes, the message has 100"),
        **changes,
    )


@dataclass
class EndedRun:
    """A run to be recorded; a value of None or False means that it never happened."""

    letters: Sequence[EndedMessage] = ()
    run_id: str = "demo-manual__2026-11-21T02-49-22"
    rules: str = RULES
    queue: str = "SYSTEM.DEAD.LETTER.QUEUE"
    dry_run: bool = False
    wait_s: int | None = 0
    why: str = ""
    snapshot: bool = True
    plan: bool = True
    last_browse: bool = True
    arrived: int = 0
    returned: int = 0
    seen: int | None = None
    look: Look | None = None

    def record(self, ledger: Ledger, lake_root: str) -> str:
        """Record the run as the stages would, and return its id."""
        run = self._run()
        ledger.runs.record(run)
        if self.look is not None:
            ledger.runs.record_look(run.run_id, self.look)
        if self.snapshot:
            keys = self._take_snapshot(run, ledger, lake_root)
            if self.plan:
                self._execute(run, ledger, keys)
        return run.run_id

    def _run(self) -> Run:
        return Run(
            run_id=self.run_id,
            handler="demo",
            dag_run_id="manual__2026-11-21T02:49:22+00:00",
            run_type="manual",
            queue_manager="QM1",
            queue=self.queue,
            state_queue="MQDLQ.STATE",
            rules_source="include/rules/demo.rules",
            rules_digest="3f9a0b12c4d5" + "e" * 52,
            rules_text=self.rules,
            retry_interval_s=5,
            wait_s=self.wait_s,
            carry_attempts=False,
            dry_run=self.dry_run,
            max_run_time_s=3600,
            started_at=START,
            started_by="alice in Airflow",
            why=self.why,
        )

    def _take_snapshot(self, run: Run, ledger: Ledger, lake_root: str) -> list[bytes]:
        at = START + timedelta(seconds=3)
        keys = []
        snapshot_id = f"20261121T024925Z-{secrets.token_hex(4)}"
        with SnapshotWriter(lake_root, "QM1", self.queue, snapshot_id) as writer:
            for browse_seq, letter in enumerate(self.letters, start=1):
                row = _row(browse_seq, letter)
                keys.append(row["message_key"])
                writer.write(row)
            writer.finish(
                taken_at=at,
                taken_by="mqops",
                rules_digest=run.rules_digest,
                rules_text=run.rules_text,
            )
        ledger.snapshots.record(
            TakenSnapshot(run.run_id, snapshot_id, writer.directory, len(keys), at)
        )
        return keys

    def _execute(self, run: Run, ledger: Ledger, keys: list[bytes]) -> None:
        plan = AcceptedPlan(
            run_id=run.run_id,
            plan_id="20261121T024925Z-5eed-3f9a0b12c4d5",
            plan_hash="9c" * 32,
            location="plans",
            accepted_at=START + timedelta(seconds=19),
        )
        listed = [(seq, key, _disposition(x)) for (seq, key), x in self._numbered(keys)]
        ledger.plans.record(run, plan, listed)
        ids = {m.browse_seq: m.message_id for m in ledger.messages.of_run(run.run_id)}
        numbered = list(self._numbered(keys))
        tried = [
            a for (seq, key), letter in numbered for a in _attempts(run, letter, ids[seq], key)
        ]
        ended = [_fact(letter, ids[seq]) for (seq, _), letter in numbered if letter.outcome]
        ledger.attempts.add(tried, [(run.run_id, fact) for fact in ended])
        if self.last_browse:
            ledger.accounts.record(run.run_id, self._sighting())

    def _numbered(self, keys: list[bytes]) -> Iterable[tuple[tuple[int, bytes], EndedMessage]]:
        return zip(enumerate(keys, start=1), self.letters, strict=True)

    def _sighting(self) -> Sighting:
        there = sum(bool(x.outcome) and x.outcome not in DEPARTED for x in self.letters)
        seen = there if self.seen is None else self.seen
        depth = seen + self.arrived + self.returned
        return Sighting(depth, seen, self.returned, self.arrived, START + timedelta(seconds=41))


def _row(browse_seq: int, letter: EndedMessage) -> dict[str, Any]:
    descriptor = MessageDescriptor(
        format="MQDEAD",
        coded_char_set_id=819,
        msg_id=b"AMQ QM1" + browse_seq.to_bytes(17, "big"),
        user_identifier=letter.user_identifier,
        put_appl_name=letter.put_appl_name,
        put_date="20261120",
        put_time="23104500",
    ).encode()
    body = letter.body if letter.body is not None else _dead_letter(browse_seq, letter)
    return header_row(browse_seq, descriptor, body[:176], len(body), browsed_at=START)


def _dead_letter(browse_seq: int, letter: EndedMessage) -> bytes:
    at = START - timedelta(minutes=90) + timedelta(seconds=7 * browse_seq)
    header = DeadLetterHeader(
        reason=letter.reason,
        dest_q_name=letter.dest_q_name,
        dest_q_mgr_name=letter.dest_q_mgr_name,
        encoding=546,
        coded_char_set_id=819,
        format="MQSTR",
        put_appl_type=6,
        put_appl_name="mover",
        put_date=f"{at:%Y%m%d}",
        put_time=f"{at:%H%M%S}00",
    )
    return header.encode(encoding=546, ccsid=819) + CANARY.encode()


def _disposition(letter: EndedMessage) -> Disposition:
    if letter.body is not None:
        return Disposition.UNPROCESSABLE
    return Disposition.PLANNED if letter.rule else Disposition.UNMATCHED


def _attempts(run: Run, letter: EndedMessage, message_id: int, key: bytes) -> Iterator[Attempt]:
    for number, made in enumerate(letter.tries, start=1):
        yield Attempt(
            unit=secrets.token_hex(24),
            run_id=run.run_id,
            plan_id="plan",
            message_id=message_id,
            message_key=key,
            rule=made.rule or letter.rule,
            attempt_no=number,
            action=Action(letter.action),
            target_q=letter.target_q,
            target_q_mgr=letter.target_q_mgr,
            state=made.ended,
            mqrc=made.mqrc,
            at=START + timedelta(seconds=made.after),
        )


def _fact(letter: EndedMessage, message_id: int) -> OutcomeFact:
    assert letter.outcome is not None
    return OutcomeFact(
        message_id=message_id,
        outcome=letter.outcome,
        why=letter.why,
        rule=letter.rule,
        action=letter.action,
        target_q=letter.target_q,
        target_q_mgr=letter.target_q_mgr,
        at=START + timedelta(seconds=40),
    )


@contextmanager
def ledger_in(directory: Path) -> Iterator[Ledger]:
    """Open a new ledger below a directory."""
    file = directory / "ledger.db"
    create_ledger(file)
    with open_for_tests(f"sqlite:///{file}") as ledger:
        yield ledger


def messages_of_every_outcome() -> list[EndedMessage]:
    """Sixty-two dead letters, nine of which need attention."""
    return [
        *(delivered(tries=(Try(20.0 + n / 9),)) for n in range(21)),
        *(
            delivered(
                reason=PUT_INHIBITED,
                dest_q_name="PAYMENTS.HELD",
                target_q="PAYMENTS.HELD",
                rule=2,
                tries=(Try(23.0 + n / 9, 2051), Try(29.0 + n / 9)),
            )
            for n in range(4)
        ),
        *(forwarded(tries=(Try(24.0 + n / 9),)) for n in range(12)),
        *(forwarded(dest_q_name="ORDERS.US", tries=(Try(25.4 + n / 9),)) for n in range(5)),
        *(discarded(tries=(Try(26.0 + n / 9),)) for n in range(8)),
        *(exhausted() for _ in range(3)),
        *(left_by_rule() for _ in range(3)),
        unmatched(),
        unmatched(),
        unmatched(reason=2087, dest_q_name="CLEARING.IN", dest_q_mgr_name="QMEUROPE"),
        bare(),
        truncated(),
        bare(
            body=b"hello " + CANARY.encode(),
            why=NO_MQDLH,
        ),
    ]
