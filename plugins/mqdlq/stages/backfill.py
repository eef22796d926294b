"""A backfill: evaluate the snapshots of a past interval under today's rules.

A backfill takes no snapshot of the queue. It merges the snapshots of its window into one, which
holds the newest row of each message and is frozen with today's rules; the evaluation is then the
ordinary one. If the backfill acts, only messages that are on the queue now are included; if it
names messages, only those. Messages with equal keys are equal for all rules: the merged snapshot
holds as many as the snapshot with the most of them.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mqdlq import directories, lake
from mqdlq.controls.key_index import key_of
from mqdlq.errors import HandlerError
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Look, Run, TakenSnapshot
from mqdlq.model import Disposition, Outcome, PlannedMessage
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import connect
from mqdlq.resources import Execution
from mqdlq.rules import find_unstored
from mqdlq.rules.diagnostics import listed
from mqdlq.stages.sense import BackfillWindow, find_snapshots_in_window
from mqdlq.stages.snapshot import taking


def merge_window(
    execution: Execution, window: BackfillWindow, *, apply: bool
) -> lake.SnapshotManifest | None:
    """Merge the snapshots of a window; return None if there is nothing to evaluate.

    Raises HandlerError for an action that a named message cannot have, or for rules that a snapshot
    cannot answer, and the errors of `merge_snapshots`.
    """
    run, ledger, log = execution.run, execution.ledger, execution.log
    taken = find_snapshots_in_window(run, window, ledger)
    kept = drop_pruned(taken)
    if len(kept) < len(taken):
        log.warning("%d of %d snapshots are pruned", len(taken) - len(kept), len(taken))
    if not kept:
        why = f"All {len(taken)} snapshots taken from {window} are pruned: nothing to evaluate."
        ledger.runs.record_look(run.run_id, Look(0, False, why, execution.clock()))
        log.info("%s", why)
        return None
    for warning in check_comparisons(run, kept, apply=apply):
        log.warning("%s", warning)
    manifest = merge_snapshots(execution, kept, apply=apply)
    taking.check_given_action(
        run, str(taking.locate_snapshot(manifest, execution.lake_root)["snapshot"])
    )
    taking.record_causes(run, ledger=ledger)
    which = "are on the queue now" if apply else "to be evaluated"
    log.info("%d messages from %s %s", manifest.messages, window, which)
    return manifest if manifest.messages or not apply else None


def merge_snapshots(
    execution: Execution, taken: Sequence[TakenSnapshot], *, apply: bool
) -> lake.SnapshotManifest:
    """Write one snapshot from several, with the run's rules and the newest row of each message.

    With `apply` the run acts: only messages that a browse of the queue meets now are included, and
    the run uses this snapshot like its own; a second call returns it. Without, the snapshot is for
    evaluation only, and the ledger does not record it. Raises LakeError and QueueManagerError.
    """
    run, ledger, lake_root = execution.run, execution.ledger, execution.lake_root
    recorded = ledger.snapshots.of_run(run.run_id)
    if recorded is not None:
        return lake.read_manifest(recorded.location)
    sources, wanted = _find_sources(taken, lake_root)
    if apply:
        with connect(execution.settings) as manager, manager.browsing(run.queue) as queue:
            present = Counter(map(key_of, BrowseCursor(manager, queue, run.queue).messages()))
        wanted = Counter({key: min(number, present[key]) for key, number in wanted.items()})
    if run.named:
        wanted = Counter({key: number for key, number in wanted.items() if key in run.named})
    chosen = _choose_newest(sources, wanted)
    at = execution.clock()
    snapshot_id = taking.new_snapshot_id(at)
    with lake.SnapshotWriter(lake_root, run.queue_manager, run.queue, snapshot_id) as writer:
        browse_seq = 0
        for location, rest in zip(sources, chosen, strict=True):
            for row in lake.snapshot_rows(location):
                if rest[row["message_key"]] > 0:
                    rest[row["message_key"]] -= 1
                    browse_seq += 1
                    writer.write({**row, "browse_seq": browse_seq})
        merged = tuple(one.snapshot_id for one in taken)
        manifest = taking.finish_snapshot(writer, run, at, put_together_from=merged)
    if apply:
        taking.record_snapshot(execution, manifest, writer.directory)
    return manifest


def check_comparisons(run: Run, taken: Iterable[TakenSnapshot], *, apply: bool) -> Iterator[str]:
    """Yield a warning if the run's rules compare what a snapshot does not have.

    Raises HandlerError if the run acts, because its messages would fall to later rules.
    """
    texts = [lake.read_manifest(one.location).rules_text for one in taken]
    unstored = find_unstored(run.rules_text, texts)
    if not unstored:
        return
    what = listed(unstored, "and")
    if apply:
        raise HandlerError(
            "MQDLQ-445",
            f"the rules compare {what}, which not all snapshots of the window have; start a"
            " run that takes a new snapshot",
        )
    yield (
        f"the rules compare {what}, which not all snapshots of the window have: rules with these"
        " comparisons do not match their messages"
    )


def drop_pruned(taken: Iterable[TakenSnapshot]) -> list[TakenSnapshot]:
    return [one for one in taken if lake.snapshot_stands(one.location)]


def _find_sources(
    taken: Sequence[TakenSnapshot], lake_root: str
) -> tuple[list[str], Counter[bytes]]:
    """Return the locations of the full rows of a window's messages, oldest first, and the counts.

    A settled message has a compact row in the window, and its full row in an earlier snapshot.
    """
    earlier: dict[str, str] = {}
    wanted: Counter[bytes] = Counter()
    for one in taken:
        for snapshot_id in lake.read_manifest(one.location).refers_to:
            earlier.setdefault(snapshot_id, lake.find_snapshot(lake_root, snapshot_id))
        wanted |= lake.count_keys(one.location)
    own = [one.location for one in taken]
    before = [place for _, place in sorted(earlier.items()) if place not in own]
    return [*before, *own], wanted


def _choose_newest(sources: Sequence[str], wanted: Counter[bytes]) -> list[Counter[bytes]]:
    """Return for each source how many rows of each message to take from it, the newest ones."""
    missing, chosen = Counter(wanted), []
    for location in reversed(sources):
        taken = Counter(_read_keys(location)) & missing
        missing -= taken
        chosen.append(taken)
    return chosen[::-1]


def _read_keys(location: str) -> Iterator[bytes]:
    return (row["message_key"] for row in lake.snapshot_rows(location, ["message_key"]))


# Report which messages of a window today's rules would treat differently.

NOT_EVALUATED: Final = "not evaluated"


Difference = tuple[str, str, int]
"""How messages were treated then, how they would be treated now, and how many they are."""


def find_differences(
    taken: Sequence[TakenSnapshot], put_together_at: str, plan: str, *, ledger: Ledger
) -> tuple[int, list[Difference]]:
    """Return how many messages were evaluated, and how they would be treated differently now.

    `put_together_at` and `plan` are directories; the plan was made from that snapshot. The earlier
    treatment of a message comes from the newest plan that covers it, among the plans of the runs
    that took the snapshots. The plan of a run for named messages covers only these.
    """
    then: dict[bytes, str] = {}
    for one in taken:
        plan_then = ledger.plans.of_run(one.run_id)
        steps = _read_treatments(plan_then.location) if plan_then else {}
        for row in lake.snapshot_rows(one.location, ["browse_seq", "message_key"]):
            if row["browse_seq"] in steps:
                then[row["message_key"]] = steps[row["browse_seq"]]
    for one in taken:  # messages with compact rows, as earlier runs had left them
        for batch in lake.settled_rows(one.location, ["message_key", "outcome", "action"]):
            for row in batch.to_pylist():
                left = row["action"] or Outcome(row["outcome"]).words
                then.setdefault(row["message_key"], left)
    now = _read_treatments(plan)
    counted: Counter[tuple[str, str]] = Counter()
    for browse_seq, key in enumerate(_read_keys(put_together_at), start=1):
        counted[then.get(key, NOT_EVALUATED), now[browse_seq]] += 1
    differences = [(*pair, number) for pair, number in counted.most_common() if pair[0] != pair[1]]
    return counted.total(), differences


def report_differences(
    execution: Execution, window: BackfillWindow, snapshot: str, plan: str
) -> None:
    """Log what today's rules would treat differently, and write it beside the run's report.

    `snapshot` and `plan` are the directories of the merged snapshot and of its plan.
    """
    run, ledger, log = execution.run, execution.ledger, execution.log
    of_window = find_snapshots_in_window(run, window, ledger)
    taken = drop_pruned(of_window)
    evaluated, changed = find_differences(taken, snapshot, plan, ledger=ledger)
    number = sum(messages for _, _, messages in changed)
    headline = (
        f"Backfill of {window}: today's rules would treat {number} of {evaluated} messages"
        " differently. Nothing was done; apply: true does it."
    )
    if pruned := len(of_window) - len(taken):
        headline += f" {pruned} of {len(of_window)} snapshots are pruned, and not in this."
    for was, is_now, messages in changed:
        log.info("%d messages: then %s; now %s", messages, was, is_now)
    log.info("%s", headline)
    ledger.runs.record_look(run.run_id, Look(evaluated, False, headline, execution.clock()))
    directory = directories.report_directory(run.run_id)
    directories.make_private_directory(directory.absolute())
    document = {
        "window": [window.start.isoformat(), window.end.isoformat()],
        "snapshots": [one.snapshot_id for one in taken],
        "rules_digest": run.rules_digest,
        "messages": evaluated,
        "differences": [
            {"then": was, "now": is_now, "messages": messages} for was, is_now, messages in changed
        ],
    }
    text = json.dumps(document, indent=2) + "\n"
    (directory / "differences.json").write_text(text, encoding="utf-8")


def _read_treatments(plan: str) -> dict[int, str]:
    return {
        message.browse_seq: _describe_treatment(message) for message in lake.planned_messages(plan)
    }


def _describe_treatment(message: PlannedMessage) -> str:
    if message.disposition is not Disposition.PLANNED:
        return message.disposition.value.replace("_", " ")
    return ", then ".join(
        f"{step.action} to {step.target_q}" if step.target_q else str(step.action)
        for step in message.steps
    )
