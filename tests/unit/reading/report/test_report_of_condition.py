"""A report says for which messages a run was, if they had to meet a condition."""

from __future__ import annotations

import pytest

from mqdlq.handlers.operation import ApprovalGuards
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.model import AuditKind
from mqdlq.reading.report.building import read_report
from mqdlq.stages.approve import review_plan
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World

pytestmark = pytest.mark.stages


def test_report_approval_and_audit_name_the_condition_and_what_left(world: World) -> None:
    for body in (b"gone", b"here"):
        world.dead_letter(body)
    first = world.plan("ACTION(IGNORE)", dry_run=True).run
    as_of = world.recorded_snapshot(first.run_id).snapshot_id
    world.lose_first()
    run = world.start("ACTION(RETRY)", where="reason=2053", as_of=as_of, action="ACTION(RETRY)")
    world.snapshot(run)

    review = review_plan(world.execution(run), world.evaluate(run), ApprovalGuards())
    make_pass(world.execution(run))
    settle(world.execution(run))
    report = read_report(
        run.run_id, ledger=world.ledger, lake_root=world.lake_root, stages={}, now=world.clock()
    )

    meant = f"the messages in snapshot {as_of} with reason=2053"
    assert review.coverage == (
        f"1 planned; the plan is for {meant}, 1 of which have left the queue"
    )
    assert report.sources.meant == f"{meant}; 1 message of them had left the queue"
    assert report.headline == "1 message: 1 handled. The account adds up."
    chosen = AuditFilter(run_id=run.run_id, what=AuditKind.RUN_STARTED)
    (event,) = world.ledger.audit_trail.page(chosen)
    assert event.details == "manual, for messages with reason=2053"
