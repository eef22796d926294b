"""Prune archive and ledger by the policies of handlers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mqdlq.ledger import Ledger, Prune
from mqdlq.stages.older_ledger.recognising import require_newest_ledger
from mqdlq.stages.retention.archive_pruning import (
    CopyChoice,
    Progress,
    choose_copies,
    finish_file,
    prune_copies,
)
from mqdlq.stages.retention.policy import Policy, check_clock
from mqdlq.stages.retention.run_pruning import RunChoice, choose_runs, finish_run, prune_runs


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The data that a policy removes, or would remove, and the data kept beyond its limits."""

    policy: Policy
    copies: CopyChoice = field(default_factory=CopyChoice)
    runs: RunChoice = field(default_factory=RunChoice)


@dataclass(frozen=True, slots=True)
class PruneResources:
    """The ledger and the lake to prune, the clock, and the person or schedule that prunes."""

    ledger: Ledger
    lake_root: str
    clock: Callable[[], datetime]
    who: str
    progress: Progress = print


def prune(
    policies: Sequence[Policy],
    resources: PruneResources,
    *,
    is_dry_run: bool = False,
    trust_clock: bool = False,
) -> list[PruneResult]:
    """Prune by each policy that has a limit; with `is_dry_run` remove nothing.

    An interrupted prune is completed first. The prune may be called again at any time, also while
    another one runs: both then remove the same copies and runs, once. Raises LedgerError if the
    clock does not agree with the ledger, OlderLedgerError if the ledger is older than the lake, and
    LakeError or OSError if a file cannot be changed; the next prune continues there.
    """
    active = [policy for policy in policies if policy.prunes]
    if not active:
        return []
    now = resources.clock()
    trusted = check_clock(resources.ledger, now, is_trusted=trust_clock)
    if is_dry_run:
        return [_choose(policy, resources, now) for policy in active]
    require_newest_ledger(resources.ledger, resources.lake_root)  # holds may be lost
    complete_interrupted_prunes(resources)
    return [_prune_one(policy, resources, now, trusted) for policy in active]


def complete_interrupted_prunes(resources: PruneResources) -> None:
    """Remove the copies and runs that the ledger has recorded as going and that are still there."""
    ledger, lake_root = resources.ledger, resources.lake_root
    for file in ledger.prunes.open_files():
        finish_file(file, ledger=ledger, lake_root=lake_root, clock=resources.clock)
    for run_id in ledger.prunes.open_runs():
        finish_run(run_id, ledger=ledger, lake_root=lake_root)


def _choose(policy: Policy, resources: PruneResources, now: datetime) -> PruneResult:
    copies, runs = CopyChoice(), RunChoice()
    if policy.keep_archive_for is not None:
        copies = _choose_copies(policy, resources, now)
    if policy.keep_runs_for is not None:
        runs = choose_runs(
            policy.handler,
            policy.keep_runs_for,
            ledger=resources.ledger,
            now=now,
            without_copies=copies.freed_runs,
        )
    return PruneResult(policy, copies, runs)


def _choose_copies(policy: Policy, resources: PruneResources, now: datetime) -> CopyChoice:
    assert policy.keep_archive_for is not None  # noqa: S101 (for mypy)
    return choose_copies(
        policy.handler,
        policy.keep_archive_for,
        ledger=resources.ledger,
        lake_root=resources.lake_root,
        now=now,
    )


def _prune_one(
    policy: Policy, resources: PruneResources, now: datetime, trusted: datetime | None
) -> PruneResult:
    ledger, lake_root, progress = resources.ledger, resources.lake_root, resources.progress
    began = Prune(policy.handler, str(policy), resources.who, now, trusted)
    prune_id = ledger.prunes.begin(began)
    copies, runs = CopyChoice(), RunChoice()
    if policy.keep_archive_for is not None:
        copies = prune_copies(
            prune_id,
            choose_copies(
                policy.handler,
                policy.keep_archive_for,
                ledger=ledger,
                lake_root=lake_root,
                now=now,
            ),
            now - policy.keep_archive_for,
            ledger=ledger,
            lake_root=lake_root,
            clock=resources.clock,
            progress=progress,
        )
    if policy.keep_runs_for is not None:
        runs = prune_runs(
            prune_id,
            choose_runs(policy.handler, policy.keep_runs_for, ledger=ledger, now=now),
            ledger=ledger,
            lake_root=lake_root,
            now=now,
            progress=progress,
        )
    return PruneResult(policy, copies, runs)
