"""Test the commands of a report, which act on the messages that need attention."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mqdlq.airflow.params import fault
from mqdlq.lake.filters import parse_where
from mqdlq.ledger.tables import Run
from mqdlq.model import GIVEN_ACTION, MessageClass, Outcome
from mqdlq.reading.report.building import Report
from mqdlq.reading.report.groups import text_command
from mqdlq.reading.report.text_report import render_text
from mqdlq.reading.run_messages import DELIVER, FORWARD, MOST_KEYS, command_for, selected
from mqdlq.rules import check
from tests.unit.reading.report.ended_runs import (
    RULES,
    EndedRun,
    bare,
    delivered,
    exhausted,
    unmatched,
)

ReportOf = Callable[..., Report]
KEY = "4f" * 32
QUEUE = "SYSTEM.DEAD.LETTER.QUEUE"


def run_of(**changes: Any) -> Run:
    rules = RULES.replace("RETRYINT", f"INPUTQ({QUEUE}) RETRYINT")
    recorded = EndedRun(rules=rules)._run()
    return replace(recorded, **changes)


def conf_of(command: str) -> dict[str, Any]:
    """Return the parameters of a command as a shell passes them on."""
    words = subprocess.run(
        ["/bin/sh", "-c", f"set -- {command}; printf '%s\\0' \"$@\""],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    assert words[:4] == ["mqdlq", "run", "demo", "--conf"]
    assert words == [*shlex.split(command), ""]
    conf: dict[str, Any] = json.loads(words[4])
    assert fault(conf) == ""
    return conf


@pytest.mark.parametrize(
    ("outcome", "cls", "conf"),
    [
        (Outcome.EXHAUSTED, MessageClass.DEAD_LETTER, {}),
        (Outcome.RETRY_PENDING, MessageClass.DEAD_LETTER, {}),
        (Outcome.NOT_ATTEMPTED, MessageClass.DEAD_LETTER, {}),
        (Outcome.UNMATCHED, MessageClass.DEAD_LETTER, {"action": DELIVER}),
        (Outcome.UNPROCESSABLE, MessageClass.NO_DLH, {"action": FORWARD}),
        (Outcome.UNPROCESSABLE, MessageClass.TRUNCATED_DLH, {"action": FORWARD}),
    ],
)
def test_a_command_acts_on_a_message_as_its_outcome_needs(
    outcome: Outcome, cls: MessageClass, conf: dict[str, Any]
) -> None:
    command = command_for(run_of(), outcome, cls, selected([KEY]))

    assert conf_of(command) == {"message_keys": [KEY], **conf}


def test_the_action_of_a_command_is_valid_except_for_the_queue_to_be_named() -> None:
    assert check(DELIVER).table is not None
    assert check(FORWARD).table is None
    assert check(FORWARD.replace("<queue>", "PARKED")).table is not None


def test_a_message_with_an_unknown_outcome_has_no_command() -> None:
    assert command_for(run_of(), Outcome.UNKNOWN, MessageClass.DEAD_LETTER, selected([KEY])) == ""


def test_a_message_without_an_outcome_needs_another_run_of_the_handler() -> None:
    assert command_for(run_of(), None, MessageClass.DEAD_LETTER, {}) == "mqdlq run demo"


def test_a_message_without_a_known_key_has_no_command() -> None:
    assert command_for(run_of(), Outcome.EXHAUSTED, None, selected([""])) == ""


def test_a_command_names_the_queue_if_the_rules_do_not_name_it() -> None:
    for run in (run_of(rules_text=RULES), run_of(queue="ANOTHER.DLQ")):
        command = command_for(run, Outcome.EXHAUSTED, MessageClass.DEAD_LETTER, selected([KEY]))
        assert conf_of(command) == {"message_keys": [KEY], "input_q": run.queue}


def test_a_command_repeats_an_action_that_was_given_for_the_run() -> None:
    hostile = "ACTION(FWD) FWDQ('A') * $(touch x) `id` \"q\" \\ 'it''s'"
    run = run_of(rules_source=GIVEN_ACTION, rules_text=f"{hostile}\n")

    command = command_for(run, Outcome.EXHAUSTED, MessageClass.DEAD_LETTER, selected([KEY]))

    assert conf_of(command) == {"message_keys": [KEY], "action": hostile, "input_q": QUEUE}


def test_the_command_of_a_run_with_a_repair_is_a_dry_run_with_the_repair() -> None:
    action = "ACTION(RETRY)"
    run = run_of(rules_source=GIVEN_ACTION, rules_text=action, repair='{"format": "MQSTR"}')

    command = command_for(run, Outcome.NOT_ATTEMPTED, MessageClass.DEAD_LETTER, selected([KEY]))

    conf = {"message_keys": [KEY], "action": action, "repair": {"format": "MQSTR"}}
    assert conf_of(command) == {"dry_run": True, **conf, "input_q": QUEUE}
    assert command_for(run, None, MessageClass.DEAD_LETTER, selected([KEY])) == ""


def test_a_group_has_one_command_for_all_its_messages(report_of: ReportOf) -> None:
    report = report_of(EndedRun([exhausted(), delivered(), exhausted(), unmatched(), bare()]))

    group = report.attention_groups[0]
    assert conf_of(group.command)["message_keys"] == [row.message_key for row in group.rows]
    assert len(group.rows) == 2
    for row in report.attention_messages:
        assert conf_of(row.command)["message_keys"] == [row.message_key]


def test_the_command_of_many_messages_selects_their_cause_and_outcome(
    report_of: ReportOf,
) -> None:
    report = report_of(EndedRun([exhausted()] * (MOST_KEYS + 1)))

    (group,) = report.attention_groups
    where = f"cause={group.first.cause_id} and state=exhausted"
    assert conf_of(group.command)["where"] == where
    assert parse_where(where).state is Outcome.EXHAUSTED
    assert conf_of(text_command(group)) == conf_of(group.command)


def test_a_command_in_the_text_can_be_pasted_with_its_line_breaks(report_of: ReportOf) -> None:
    report = report_of(EndedRun([bare(), bare(), exhausted()]))

    text = render_text(report)

    for group in report.attention_groups:
        lines = text_command(group).splitlines()
        assert conf_of("\n      ".join(lines)) == conf_of(group.command)
        assert all(f" {line}\n" in text for line in lines)


def test_the_text_leaves_a_long_command_to_the_page(report_of: ReportOf) -> None:
    (group,) = report_of(EndedRun([exhausted()] * 4)).attention_groups

    assert group.command
    assert text_command(group) == ""
