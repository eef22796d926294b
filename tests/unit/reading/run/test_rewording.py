"""No number of a run depends on the words of a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mqdlq.ledger import Ledger
from mqdlq.model import Outcome
from mqdlq.reading.cause_profiles import CauseProfile, SnapshotProfile, profile_causes
from mqdlq.reading.report.building import read_report, summarize_run
from mqdlq.reading.report.json_report import render_json
from mqdlq.reasons import Why
from tests.support.reasons import reworded
from tests.unit.reading.report.conftest import WRITTEN_AT
from tests.unit.reading.report.ended_runs import EndedRun, delivered, discarded, unmatched
from tests.unit.reading.run.test_summary import RUNS

pytestmark = pytest.mark.stages

STAYS = {"outcome": Outcome.NOT_ATTEMPTED, "tries": ()}
DRY, LEASED = Why.DRY_RUN(), Why.LEASED(run_id="other")
OF_MANY_REASONS = EndedRun(
    [
        delivered(**STAYS, why=DRY),
        delivered(**STAYS, why=Why.WOULD_ALSO_STAY(why=DRY, also=Why.MAYBE_TRUNCATED())),
        delivered(**STAYS, why=Why.OWN_TARGET(target="A")),
        delivered(**STAYS, why=Why.OWN_TARGET(target="B")),
        delivered(outcome=Outcome.LEASED_BY_RUN, tries=(), why=LEASED),
        discarded(**STAYS, why=Why.NO_ARCHIVE_COPY()),
        unmatched(),
    ]
)


@pytest.mark.parametrize(
    "run", [*RUNS.values(), OF_MANY_REASONS], ids=[*RUNS, "a run of many reasons"]
)
def test_rewording_every_reason_changes_no_number(
    run: EndedRun, ledger: Ledger, lake_root: str
) -> None:
    run_id = run.record(ledger, lake_root)
    before = numbers(run_id, ledger, lake_root)

    with reworded():
        assert numbers(run_id, ledger, lake_root) == before


def test_what_only_a_dry_run_kept_from_being_moved_needs_no_attention(
    ledger: Ledger, lake_root: str
) -> None:
    run_id = OF_MANY_REASONS.record(ledger, lake_root)

    with reworded():
        report = read_report(run_id, ledger=ledger, lake_root=lake_root, stages={}, now=WRITTEN_AT)
        assert [row.browse_seq for row in report.attention_messages] == [2, 3, 4, 6, 7]
        assert ledger.run_messages.counts(run_id).only_dry_run == {"RETRY": 1}
        assert ledger.outcomes.count_without_archive_copy(run_id) == 1


def numbers(run_id: str, ledger: Ledger, lake_root: str) -> list[Any]:
    """Return all that is said of a run, without the words of reasons."""
    report = read_report(run_id, ledger=ledger, lake_root=lake_root, stages={}, now=WRITTEN_AT)
    summary = summarize_run(run_id, ledger, lake_root)
    run, taken = ledger.runs.get(run_id), ledger.snapshots.of_run(run_id)
    assert run is not None
    since = ledger.later.of_run(run_id)
    return [
        without_words(json.loads(render_json(report))),
        (
            summary.account,
            summary.verdict,
            summary.headline,
            summary.needs_attention,
            summary.rules,
        ),
        ledger.run_messages.counts(run_id),
        ledger.outcomes.counts(run_id),
        ledger.outcomes.count_without_archive_copy(run_id),
        profiles_of(profile_causes(run, taken, WRITTEN_AT, ledger=ledger, since=since))
        if taken
        else None,
    ]


def profiles_of(found: SnapshotProfile) -> list[Any]:
    """Return all that profiles of causes say: they count when asked, and do not compare."""
    names = {name for name in dir(CauseProfile) if not name.startswith("_")} - {"rows"}
    said = {
        cause_id: {name: getattr(one, name) for name in [*names, "cause", "gone"]}
        for cause_id, one in found.causes.items()
    }
    return [said, found.read, found.messages, found.since, found.gone]


def without_words(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: without_words(one) for name, one in found.items() if name != "why"}
    return [without_words(one) for one in found] if isinstance(found, list) else found
