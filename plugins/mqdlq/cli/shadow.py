"""The command `mqdlq shadow`: compare our decisions with what another handler did.

Another handler, usually `runmqdlq`, handled a queue between two snapshots. Its actions are known
only by where the messages are now: still on the queue, or on another browsed queue. Nothing is
known of a message that is on neither. It may have been discarded, put to a queue that was not
browsed, taken from its target since, taken by another application, or it may have expired.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import click

from mqdlq import directories, lake
from mqdlq.cli.output import Output, attributes, refusing, write_json
from mqdlq.errors import LakeError
from mqdlq.lake import Snapshot
from mqdlq.model import Action, MessageClass, Step
from mqdlq.plan import TARGET_COLUMNS, decide
from mqdlq.rules import parse

MAX_SAMPLES: Final = 5
IDENTITY_COLUMNS: Final = ("msg_id", "correl_id", "put_date", "put_time", "put_appl_name")
"""The columns that stay the same when a message is put with all its context."""

Row = Mapping[str, Any]
QueueAddress = tuple[str, str]
"""A queue and its queue manager."""


class Verdict(StrEnum):
    """Whether a message is where the rules would have put it; open if that cannot be determined."""

    AGREES = "agrees"
    DIFFERS = "differs"
    OPEN = "open"


@dataclass(slots=True)
class Finding:
    """The messages with the same plan and the same observation.

    `samples` are the browse_seq of the first few in the first snapshot.
    """

    verdict: Verdict
    planned: str
    observed: str
    messages: int = 0
    samples: list[int] = field(default_factory=list)


class ShadowComparison:
    """Where the messages of a snapshot are, the findings, and how many messages arrived since."""

    def __init__(self, first: Snapshot, second: Snapshot, arrivals: Sequence[Snapshot]) -> None:
        """Evaluate the first snapshot's frozen rules, and find where its messages are now.

        Raises `LakeError` if the snapshots do not belong together, or if one cannot be read.
        """
        _check_snapshots(first, second, arrivals)
        manifest = first.manifest
        self._queue_manager, self._seen_at = manifest.queue_manager, second.manifest.taken_at
        rows = lake.whole_rows(second.directory, ["message_key"])
        self._remaining = Counter(row["message_key"] for row in rows)
        self.browsed: set[QueueAddress] = set()
        self._arrived: dict[tuple[Any, ...], Counter[QueueAddress]] = {}
        for one in arrivals:
            place = one.queue[::-1]
            self.browsed.add(place)
            rows = lake.whole_rows(one.directory, IDENTITY_COLUMNS)
            for identity, number in Counter(map(_identity, rows)).items():
                found = self._arrived.setdefault(identity, Counter())
                found[place] = max(found[place], number)  # a queue may be browsed twice
        table = parse(manifest.rules_text, queue_kind=manifest.queue_kind, frozen=True)
        own = ("browse_seq", "class", "message_key", "expires_at")
        columns = sorted({*own, *IDENTITY_COLUMNS, *table.columns, *TARGET_COLUMNS})
        findings: dict[tuple[str, ...], Finding] = {}
        for row in lake.whole_rows(first.directory, columns):
            steps = decide(table, row, nul_as_blank=manifest.nul_as_blank)
            verdict, happened = self._judge(steps, row)
            said = self._in_words(steps, row)
            finding = findings.setdefault(
                (verdict, said, happened), Finding(verdict, said, happened)
            )
            finding.messages += 1
            if len(finding.samples) < MAX_SAMPLES:
                finding.samples.append(row["browse_seq"])
        order = [Verdict.DIFFERS, Verdict.OPEN, Verdict.AGREES]
        self.findings = sorted(
            findings.values(), key=lambda one: (order.index(one.verdict), -one.messages)
        )
        self.arrived = self._remaining.total()

    def messages(self, verdict: Verdict) -> int:
        return sum(found.messages for found in self.findings if found.verdict is verdict)

    def _judge(self, steps: Sequence[Step], row: Row) -> tuple[Verdict, str]:
        """Say where a message is; it is taken from the account, as equal messages may follow."""
        wish = steps[0].action if steps else Action.IGNORE
        if self._remaining[row["message_key"]] > 0:
            self._remaining[row["message_key"]] -= 1
            return _IF_STILL_THERE[wish]
        targets = sorted({self._target(step) for step in steps if step.target_q})
        # Several messages may share an identity: those on a target of this message come first.
        found = self._arrived.get(_identity(row), Counter())
        place = next((one for one in (*targets, *found) if found[one] > 0), None)
        if place is not None:
            found[place] -= 1
            verdict = Verdict.AGREES if place in targets else Verdict.DIFFERS
            return verdict, f"on {self.shown(place)}"
        if row["expires_at"] is not None and row["expires_at"] <= self._seen_at:
            return Verdict.OPEN, "gone; its time to expire has come"
        if wish is Action.IGNORE:
            return Verdict.DIFFERS, "gone: by that handler, or by somebody else"
        return Verdict.OPEN, self._missing(targets)

    def _missing(self, targets: Sequence[QueueAddress]) -> str:
        unseen = [self.shown(target) for target in targets if target not in self.browsed]
        if unseen:
            return f"gone; not browsed: {', '.join(unseen)}"
        if targets:
            return f"gone, and not seen on {' or '.join(map(self.shown, targets))}"
        return "gone: discarded, or taken or put where nobody looked"

    def _in_words(self, steps: Sequence[Step], row: Row) -> str:
        if row["class"] != MessageClass.DEAD_LETTER:
            return "leave it: no valid MQDLH"
        words = (
            f"{step.action} to {self.shown(self._target(step))}" if step.target_q else step.action
            for step in steps
        )
        return ", then ".join(words) or "leave it: no rule"

    def _target(self, step: Step) -> QueueAddress:
        return step.target_q, step.target_q_mgr or self._queue_manager

    def shown(self, place: QueueAddress) -> str:
        queue, queue_manager = place
        return queue if queue_manager == self._queue_manager else f"{queue} @ {queue_manager}"


_WAITING: Final = (Verdict.OPEN, "on the queue still: puts failed, or it waits for its next pass")
_IF_STILL_THERE: Final = {
    Action.IGNORE: (Verdict.AGREES, "on the queue still"),
    Action.DISCARD: (Verdict.DIFFERS, "on the queue still"),
    Action.RETRY: _WAITING,
    Action.FWD: _WAITING,
}


def _check_snapshots(first: Snapshot, second: Snapshot, arrivals: Sequence[Snapshot]) -> None:
    of_first, of_second = first.manifest, second.manifest
    if first.queue != second.queue:
        raise LakeError(
            "MQDLQ-431",
            f"{of_first.snapshot_id} is of {of_first.queue} @ {of_first.queue_manager},"
            f" {of_second.snapshot_id} of {of_second.queue} @ {of_second.queue_manager}; name two"
            " snapshots of one queue as BEFORE and AFTER",
        )
    for later in (second, *arrivals):
        if later.manifest.taken_at <= of_first.taken_at:
            raise LakeError(
                "MQDLQ-432",
                f"{later.manifest.snapshot_id} was taken before {of_first.snapshot_id}, or at the"
                " same time; name a later snapshot",
            )


def _identity(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in IDENTITY_COLUMNS)


# The command.


def shadow(
    before: str, after: str, arrivals: tuple[str, ...] = (), output: Output = "text"
) -> None:
    """Implement `mqdlq shadow`.

    BEFORE holds the rules as they were when it was taken. A message that is still on the queue in
    AFTER, or on a queue of --arrivals, shows what the other handler did with it. A message on none
    of them stays open: it was discarded, taken, expired or put to another queue, and a snapshot
    cannot show which. If our rules would have left it, that differs. A message that another
    application holds in a unit of work is not visible: take AFTER while the other handler has
    nothing to do.

    Take the snapshots by dry runs of the dead-letter queue, before and after the other handler
    runs, and of the queues it puts to, by the names that the rules use. A queue that may be empty
    needs full_snapshot:

      mqdlq run demo --conf '{"dry_run": true, "full_snapshot": true, "input_q": "PAYMENTS.IN"}'

    Exit code 0 if nothing differs; 1 if something does; 2 if a snapshot cannot be read or the
    snapshots do not belong together.

    Takes:
      BEFORE: The snapshot of a dry run, by id or directory.
      AFTER: A later snapshot of the same queue.
      --arrivals ID|DIR: A later snapshot of a queue that messages were sent to; repeatable.

    For example:
      mqdlq shadow 20261121T120000Z-1a2b3c4d 20261121T130000Z-5e6f7a8b
    """
    with refusing(LakeError, prefix=""):
        first, second, *others = [
            Snapshot.named(directories.lake(), name) for name in (before, after, *arrivals)
        ]
        found = ShadowComparison(first, second, others)
    if output == "json":
        names = ("verdict", "said=planned", "happened=observed", "messages", "samples")
        write_json(
            {str(verdict): found.messages(verdict) for verdict in Verdict}
            | {"arrived_since": found.arrived}
            | {"findings": [attributes(finding, *names) for finding in found.findings]}
        )
    else:
        click.echo("\n".join(_as_text(found, first, second)))
    raise SystemExit(int(found.messages(Verdict.DIFFERS) > 0))


def _as_text(found: ShadowComparison, before: Snapshot, after: Snapshot) -> list[str]:
    first, second = before.manifest, after.manifest
    browsed = ", ".join(sorted(found.shown(place) for place in found.browsed))
    day = "" if first.taken_at.date() == second.taken_at.date() else f"{second.taken_at:%Y-%m-%d} "
    lines = [
        (
            f"{first.queue} @ {first.queue_manager}, {first.taken_at:%Y-%m-%d %H:%M:%S} to"
            f" {day}{second.taken_at:%H:%M:%S} UTC; arrivals on {browsed or 'no queue'}"
        ),
        (
            f"{found.messages(Verdict.AGREES)} messages agree, {found.messages(Verdict.DIFFERS)}"
            f" differ, {found.messages(Verdict.OPEN)} are open; {found.arrived} arrived since"
        ),
        "",
    ]
    for finding in found.findings:
        numbers = ", ".join(str(number) for number in finding.samples)
        more = ", …" if finding.messages > len(finding.samples) else ""
        lines += [
            f"{finding.verdict:8}{finding.messages:6}  said  {finding.planned}",
            f"{'':14}  seen  {finding.observed}",
        ]
        if finding.verdict is not Verdict.AGREES:
            lines.append(f"{'':14}        messages {numbers}{more}")
    return lines
