from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqdlq import directories
from mqdlq.cli import app
from mqdlq.errors import LedgerError
from mqdlq.failures import Failure
from mqdlq.ledger import Ledger
from mqdlq.reading.report.building import Report
from mqdlq.reading.report.files import ReportFiles, written_stages
from mqdlq.reading.report.json_report import render_json, render_row
from tests.unit.reading.report.ended_runs import (
    CANARY,
    STAGES,
    START,
    USER,
    EndedRun,
    bare,
    delivered,
    failed_at,
    left_by_rule,
    left_no_word_at,
    messages_of_every_outcome,
    unmatched,
)

pytestmark = pytest.mark.stages

FilesOf = Callable[..., ReportFiles]
ReportOf = Callable[..., Report]
RULES_ERROR = """\
include/rules/demo.rules:3:8: unknown reason code MQRC_Q_FUL; did you mean MQRC_Q_FULL (2053)?
    REASON(MQRC_Q_FUL) ACTION(RETRY) RETRY(5)
           ~~~~~~~~~^
"""
BEFORE_THE_LEDGER = {"sense": "failed", **dict.fromkeys(STAGES[1:], "upstream_failed")}


def test_a_report_is_three_private_files_named_by_the_run(
    files_of: FilesOf, tmp_path: Path
) -> None:
    files = files_of(EndedRun([delivered()]))

    directory = tmp_path / "reports" / "demo-manual__2026-11-21T02-49-22"
    assert files.html_path == directory / "report.html"
    assert files.json_path == directory / "report.json"
    assert sorted(path.name for path in directory.iterdir()) == [
        "report.html",
        "report.json",
        "report.txt",
    ]
    assert (directory / "report.txt").read_text() == files.text
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}
    assert {made.stat().st_mode & 0o777 for made in (directory, directory.parent)} == {0o700}


def test_no_body_is_in_any_file(files_of: FilesOf) -> None:
    files = files_of(EndedRun(messages_of_every_outcome()))

    written = "".join(path.read_text() for path in files.html_path.parent.iterdir())
    assert CANARY not in written
    assert CANARY.encode().hex() not in written


def test_the_text_that_a_log_and_an_alert_show_has_no_user_identifier(files_of: FilesOf) -> None:
    files = files_of(EndedRun(messages_of_every_outcome()))

    assert USER in files.html_path.read_text()
    assert USER in files.json_path.read_text()
    assert USER not in files.text + files.short


def test_the_json_says_where_a_message_came_from(report_of: ReportOf) -> None:
    (row,) = report_of(EndedRun([unmatched()])).attention_messages

    document = json.loads(render_row(row))
    assert {name: document[name] for name in ("put_appl_name", "user_identifier", "format")} == {
        "put_appl_name": "payments",
        "user_identifier": USER,
        "format": "MQSTR",
    }
    assert (document["total_length"], document["since"]) == (188, "2026-11-21T01:19:29+00:00")
    assert document["command"] == row.command


def test_the_json_is_the_whole_report_and_acts_on_no_terminal(report_of: ReportOf) -> None:
    name = "A\x9b31m\x1b[0m\xadB\xc4"
    report = report_of(EndedRun([delivered(), unmatched(dest_q_name=name), bare()]))

    text = render_json(report)

    document = json.loads(text)
    assert [row["dest_q_name"] for row in document["attention_messages"]] == [name, ""]
    assert text.replace("\n", "").isprintable()
    assert "\xc4" in text  # a letter like any other
    own = {*Report.__dataclass_fields__, "format", "version", "failed"}
    own -= {"run_id", "ended_at", "sources", "is_reported"}
    assert set(document) == own | {"run", "snapshot", "plan", "troubles"}
    causes, attention = document["causes"], document["attention_messages"]
    assert [one["reason_text"] for one in causes] == [
        one.cause.reason_text for one in report.causes
    ]
    assert [one["next_step"] for one in attention] == [
        one.next_step for one in report.attention_messages
    ]
    report = replace(report, causes=(), attention_messages=(), attention_groups=())
    sources = replace(report.sources, settled={}, rules={}, manifest=None)
    whole = asdict(replace(report, sources=sources))
    whole = json.loads(json.dumps(whole, default=datetime.isoformat))
    for part in ("rules", "timeline", "attempts", "stages"):
        assert document[part] == whole[part]
    del whole["account"]["last_browse"]["next_pass_at"]
    assert document["account"] == whole["account"] | {"booked": 3, "adds_up": True}
    run, snapshot = whole["sources"]["run"], whole["sources"]["snapshot"]
    assert document["snapshot"].items() <= snapshot.items()
    more = {"ended_at": whole["ended_at"], "duration_s": report.duration_s}
    assert document["run"].items() <= (run | more).items()


def test_the_json_holds_the_ledgers_numbers(files_of: FilesOf, ledger: Ledger) -> None:
    run = EndedRun(messages_of_every_outcome(), arrived=2)

    document = json.loads(files_of(run).json_path.read_text())

    outcomes = Counter(fact.outcome for fact in ledger.outcomes.of_run(run.run_id).values())
    assert (document["format"], document["version"]) == ("mqdlq-report", 4)
    assert (document["failed"], document["verdict"]) == (False, "attention")
    assert document["account"]["outcomes"] == outcomes
    assert document["account"]["booked"] == len(ledger.outcomes.of_run(run.run_id))
    assert document["account"]["last_browse"] == {
        "depth": 14,
        "seen": 12,
        "returned": 0,
        "arrived": 2,
        "at": "2026-11-21T02:50:03+00:00",
    }
    assert sum(row["messages"] for row in document["rules"]) == 62
    assert len(document["attention_messages"]) == 9
    assert sum(document["attempts"].values()) == len(ledger.attempts.of_run(run.run_id))
    assert document["run"]["duration_s"] == 41.0


@pytest.mark.parametrize(
    ("run", "stage", "headline", "why"),
    [
        (
            EndedRun(snapshot=False),
            "snapshot",
            "The run ended at snapshot before it took a snapshot; nothing was touched.",
            left_no_word_at("snapshot"),
        ),
        (
            EndedRun([delivered()] * 3, plan=False),
            "evaluate",
            "The run ended at evaluate: none of 3 messages was acted on; nothing was touched.",
            left_no_word_at("evaluate"),
        ),
        (
            EndedRun([delivered(), replace(delivered(), outcome=None)], last_browse=False),
            "execute",
            (
                "2 messages: 1 handled, 1 without an outcome. The account does not add up."
                " The run failed at execute."
            ),
            (
                f"{left_no_word_at('execute')}; 1 of 2 messages has no outcome: messages 2;"
                " the queue was not browsed again, so nothing is proven"
            ),
        ),
    ],
)
def test_the_report_of_a_failed_run_names_the_stage(
    files_of: FilesOf, run: EndedRun, stage: str, headline: str, why: str
) -> None:
    files = files_of(run, failed_at(stage))

    document = json.loads(files.json_path.read_text())
    assert (files.failed, files.why) == (True, why)
    assert (document["failed"], document["headline"]) == (True, headline)
    assert files.text.startswith("FAILED  demo  SYSTEM.DEAD.LETTER.QUEUE @ QM1\n")
    assert '<header class="failed">' in files.html_path.read_text()


def test_a_run_that_is_not_in_the_ledger_is_reported_from_its_stages_and_error(
    files_of: FilesOf,
) -> None:
    files = files_of(EndedRun(), BEFORE_THE_LEDGER, RULES_ERROR, recorded=False)

    assert files.failed
    assert (
        files.text
        == """\
FAILED  demo-manual__2026-11-21T02-49-22
The run failed at sense; nothing was touched.
Why: stage sense failed: include/rules/demo.rules:3:8: unknown reason code MQRC_Q_FUL; did you mean
MQRC_Q_FULL (2053)?

Stages   sense failed, snapshot upstream_failed, evaluate upstream_failed, approve upstream_failed,
         execute upstream_failed, retry upstream_failed

Error
  include/rules/demo.rules:3:8: unknown reason code MQRC_Q_FUL; did you mean MQRC_Q_FULL (2053)?
      REASON(MQRC_Q_FUL) ACTION(RETRY) RETRY(5)
             ~~~~~~~~~^
"""
    )


def test_a_run_without_any_record_is_reported_as_failed(files_of: FilesOf) -> None:
    files = files_of(EndedRun(), {}, recorded=False)

    assert (files.failed, files.why) == (True, "the ledger has no such run")


def test_a_report_written_again_replaces_the_first(files_of: FilesOf) -> None:
    files_of(EndedRun([delivered()]), failed_at("retry"))

    files = files_of(EndedRun(), recorded=False)

    assert not files.failed
    assert json.loads(files.json_path.read_text())["failed"] is False
    assert len(list(files.html_path.parent.iterdir())) == 3


@pytest.mark.parametrize("run_id", ["../../etc", "", ".hidden", "a/b"])
def test_a_run_id_that_could_leave_the_directory_is_refused(run_id: str) -> None:
    with pytest.raises(LedgerError) as raised:
        directories.report_directory(run_id)

    assert str(raised.value) == (
        f"run id {run_id!r} cannot name a directory; expected letters, digits, '_', '-',"
        " '.' [MQDLQ-241]"
    )


def test_a_written_report_remembers_the_states_of_the_stages(files_of: FilesOf) -> None:
    run = EndedRun([delivered()])
    assert written_stages(run.run_id) == ({}, ())

    files_of(run, failed_at("retry"), "it broke")

    assert written_stages(run.run_id) == (
        failed_at("retry"),
        (Failure("retry", "it broke"),),
    )


def test_the_report_command_prints_the_latest_run(files_of: FilesOf) -> None:
    files = files_of(EndedRun([delivered(), left_by_rule()]))

    result = CliRunner().invoke(app, ["report"])

    assert (result.exit_code, result.output) == (0, files.text)


def test_the_report_command_writes_json(files_of: FilesOf, ledger: Ledger, lake_root: str) -> None:
    files_of(EndedRun([delivered()]))
    EndedRun([bare()], run_id="another").record(ledger, lake_root)

    result = CliRunner().invoke(app, ["report", "another", "--format", "json"])

    assert json.loads(result.output)["run"]["run_id"] == "another"


def test_the_report_command_shows_a_run_that_failed_before_its_first_record(
    files_of: FilesOf,
) -> None:
    files_of(EndedRun([delivered()]))
    failed = EndedRun(run_id="demo-later")
    files = files_of(failed, BEFORE_THE_LEDGER, RULES_ERROR, recorded=False)
    later = START.timestamp() + 3600
    os.utime(files.json_path, (later, later))
    os.utime(
        directories.report_directory(EndedRun().run_id) / "report.json", (later - 1, later - 1)
    )

    result = CliRunner().invoke(app, ["report"])

    assert (result.exit_code, result.output) == (0, files.text)


def test_the_report_command_names_the_latest_run_if_the_run_is_unknown(
    ledger: Ledger, lake_root: str
) -> None:
    EndedRun([delivered()]).record(ledger, lake_root)

    result = CliRunner().invoke(app, ["report", "nobody"])

    assert (result.exit_code, result.stderr) == (
        1,
        (
            "mqdlq: no run 'nobody' is recorded; the latest is"
            " 'demo-manual__2026-11-21T02-49-22' [MQDLQ-908]\n"
        ),
    )


@pytest.mark.usefixtures("ledger")
def test_the_report_command_names_an_empty_ledger() -> None:
    result = CliRunner().invoke(app, ["report"])

    assert result.exit_code == 1
    assert re.sub(r"sqlite:///\S+/", "sqlite:///…/", result.stderr) == (
        "mqdlq: the ledger sqlite:///…/ledger.db has no run; start one with `mqdlq run"
        " HANDLER`, or name the ledger of Airflow's connection mqdlq_ledger in"
        " MQDLQ_LEDGER_URL [MQDLQ-907]\n"
    )
