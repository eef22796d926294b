"""Test the page that a person reads before approving a plan."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq.handlers.operation import ApprovalGuards
from mqdlq.ledger.tables import Run
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.report.markdown import (
    MOST_CAUSES,
    MOST_MESSAGES,
    MOST_RULES,
    MOST_TARGETS,
    ReviewSettings,
    write_review_page,
)
from mqdlq.stages.approve import PlanReview, review_plan
from tests.support.world import World

pytestmark = pytest.mark.slow

RULES = """
RETRYINT(60) WAIT(NO)
* a comment
DESTQ(PAYMENTS) REASON(MQRC_Q_FULL) +
  ACTION(RETRY) RETRY(2)
DESTQ(PAYMENTS) ACTION(DISCARD)
DESTQ(OLD) ACTION(DISCARD)
DESTQ(LEGAL) ACTION(IGNORE)
ACTION(RETRY)
"""
HOSTILE = (
    "<img src=x onerror=1>`|a\\",
    "[a](https://evil.example)",
    "![a](//evil.example)",
    "www.evil.example",
    "a@evil.example",
    "\x1b[31mred\x07",
)


def page_of(world: World, rules: str = RULES, **settings: Any) -> tuple[str, Run, PlanReview]:
    run = world.start(rules)
    world.snapshot(run)
    plan_id = world.evaluate(run)
    guards = ApprovalGuards(discard=True, messages=0, new_target=True)
    accepted = review_plan(
        world.execution(run),
        plan_id,
        guards,
    )
    given: dict[str, Any] = {
        "within": timedelta(hours=12),
        "keep_archive_for": None,
        "paths": Paths(""),
        "now": world.clock(),
        **settings,
    }
    page = write_review_page(
        run,
        accepted.plan,
        accepted.coverage,
        [text for _, text in accepted.questions],
        ReviewSettings(**given),
        ledger=world.ledger,
        lake_root=world.lake_root,
    )
    return page, run, accepted


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_page_shows_for_each_rule_what_happens_to_which_messages(world: World) -> None:
    for dest_q in ("PAYMENTS", "PAYMENTS", "OLD", "LEGAL"):
        world.dead_letter(dest_q=dest_q, PutApplName=b"billing")
    world.put("DLQ", b"no dead letter")

    page, run, accepted = page_of(world, keep_archive_for=timedelta(days=30))

    keys = [message.message_key.hex() for message in world.ledger.messages.of_run(run.run_id)]
    key = re.findall(r"\| `([0-9a-f]{64})` \|", page)
    assert sorted(key) == sorted(keys[:4])
    shown = re.sub(r"[0-9a-f]{64}", "KEY", page)
    assert (
        shown
        == f"""\
- 3 messages may be discarded
- 3 messages are acted on, more than 0
- nothing was ever moved from here to PAYMENTS @ QM1

All messages: 4 planned, 1 unprocessable. [See the plan](/mqdlq/dags/mq_dlq_test/runs/{run.run_id}).

### Line 4: RETRY, 2 messages

`DESTQ(PAYMENTS) REASON(MQRC_Q_FULL) + ACTION(RETRY) RETRY(2)`

To `PAYMENTS @ QM1` (2).

If these attempts fail, a later rule **discards 2 messages**: each is archived first, and can be \
restored until 2026-12-21 12:00:00 UTC.

- MQRC\\_Q\\_FULL \\(2053\\) for `PAYMENTS @ QM1`: 2 messages

| message_key | application | destination | age |
|---|---|---|---|
| `KEY` | `billing` | `PAYMENTS @ QM1` | 1 h 0 min |
| `KEY` | `billing` | `PAYMENTS @ QM1` | 1 h 0 min |

### Line 7: DISCARD, 1 message

`DESTQ(OLD) ACTION(DISCARD)`

**Discards 1 message**: each is archived first, and can be restored until 2026-12-21 12:00:00 UTC.

- MQRC\\_Q\\_FULL \\(2053\\) for `OLD @ QM1`: 1 message

| message_key | application | destination | age |
|---|---|---|---|
| `KEY` | `billing` | `OLD @ QM1` | 1 h 0 min |

### Line 8: IGNORE, 1 message

`DESTQ(LEGAL) ACTION(IGNORE)`

- MQRC\\_Q\\_FULL \\(2053\\) for `LEGAL @ QM1`: 1 message

| message_key | application | destination | age |
|---|---|---|---|
| `KEY` | `billing` | `LEGAL @ QM1` | 1 h 0 min |

Exactly this plan is carried out if you approve: plan `{accepted.plan.plan_id}`, hash `KEY`.

No answer within 12:00:00 means reject.
"""
    )


def test_an_archive_without_a_limit_keeps_what_is_discarded(world: World) -> None:
    world.dead_letter(dest_q="OLD")

    page, *_ = page_of(world)

    assert "archived first, and can be restored without a time limit." in page


def test_names_from_messages_stay_in_code_spans(world: World) -> None:
    for name in HOSTILE:
        world.dead_letter(
            dest_q=name, dest_q_mgr=name[:20], PutApplName=name.encode("latin-1", "replace")[:28]
        )

    page, *_ = page_of(world)

    without_code = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", page)
    assert not re.search(r"(?<!\\)[<!`]", without_code)
    for text in ("evil", "\x1b", "\x07"):
        assert text not in without_code
    assert without_code.count("](") == 1  # the link to the plan


def test_the_length_of_the_page_is_limited(world: World) -> None:
    rules = ["RETRYINT(60) WAIT(NO)"]
    for number in range(MOST_RULES + 3):
        rules.append(f"DESTQ('Q{number}.*') ACTION(RETRY)")
        for at in range(MOST_TARGETS + 2):
            world.dead_letter(dest_q=f"Q{number}.{'LONG' * 8}.N{at}", reason=2051 + at)

    page, *_ = page_of(world, "\n".join(rules))

    each = MOST_TARGETS + 2
    assert page.count("### ") == MOST_RULES
    assert f"And 3 rules more: {3 * each} messages" in page
    assert page.count(f"- {each - MOST_CAUSES} causes more") == MOST_RULES
    assert page.count(f"and {each - MOST_MESSAGES} messages more") == MOST_RULES
    assert page.count("and 2 more.") == MOST_RULES
    assert len(page) < 40_000
