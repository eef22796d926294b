from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mqdlq import lake
from mqdlq.directories import PROJECT
from mqdlq.errors import LakeError
from mqdlq.evaluation.applications.evaluate_rules import main
from mqdlq.evaluation.evaluate import evaluate
from mqdlq.evaluation.messages import Bounds, Strategy
from mqdlq.evaluation.spark_conf import submit_conf, submit_environment
from mqdlq.lake import PlanDescription, StepCount
from mqdlq.model import Action, Disposition, PlannedMessage, PutAuthority, QueueKind, Step
from mqdlq.plan import resolve, steps_for
from mqdlq.rules import parse
from tests.spark.test_strategies import WHOLE
from tests.support.evaluation.snapshot_builders import (
    dead_letter,
    no_dead_letter,
    take_snapshot,
    write_rows,
)
from tests.support.plan_hashes import plan_hash

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

RULES = """\
REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(2)
DESTQ(PAY*) ACTION(FWD) FWDQ(&REPLYQ) FWDQM(PARK) HEADER(NO)
APPLNAME('quo?es') ACTION(DISCARD)
PERSIST(MQPER_NOT_PERSISTENT) ACTION(IGNORE)
"""
ODD = ["", "a'b\"c", "x\x1fy\x1ez", "A\0B", "\0", "é€😀", " lead", "tab\t\n", "%_\\*?", "1:2"]


def plan_of(root: Path, rows: Iterable[dict[str, Any]], rules: str = RULES) -> str:
    """Evaluate a snapshot of these rows; return the plan's directory."""
    plan = lake.plan_directory(str(root), "s1-abc")
    evaluate(take_snapshot(str(root), rows, rules), plan=plan)
    return plan


def odd_rows() -> list[dict[str, Any]]:
    """Return messages whose values are hard on separators, quotes and encodings, and others."""
    letters = [
        dead_letter(
            7 * number,
            dlh_reason=2053 if number % 3 else 2085,
            dlh_dest_q_name=name,
            dlh_dest_q_mgr_name=other,
            reply_to_q=other,
            put_appl_name="quotes" if number % 5 else "",
            persistence=number % 2,
        )
        for number, (name, other) in enumerate((a, b) for a in (*ODD, "PAY") for b in ODD)
    ]
    return [*letters, no_dead_letter(5000), no_dead_letter(9001)]


def by_python(rows: list[dict[str, Any]], rules: str) -> list[PlannedMessage]:
    """Evaluate without Spark: the definition."""
    table = parse(rules)
    found = []
    for row in rows:
        valid = row["class"] == "dead_letter"
        templates = steps_for(table, row) if valid else ()
        planned = Disposition.PLANNED if templates else Disposition.UNMATCHED
        found.append(
            PlannedMessage(
                row["browse_seq"],
                row["message_key"],
                "QM1",
                "DLQ",
                planned if valid else Disposition.UNPROCESSABLE,
                tuple(resolve(template, row) for template in templates),
            )
        )
    return found


def test_a_plan_says_what_to_do_with_each_message(tmp_path: Path) -> None:
    full = dead_letter(0, dlh_reason=2053, dlh_dest_q_name="PAY.IN", reply_to_q="REPLIES")
    other = dead_letter(1, dlh_reason=2085, dlh_dest_q_name="ORDERS", persistence=1)
    plain = no_dead_letter(2)

    plan = plan_of(tmp_path, [full, other, plain])

    retry = Step(1, 1, Action.RETRY, "PAY.IN", "", False, PutAuthority.DEF, 2)
    forward = Step(2, 2, Action.FWD, "REPLIES", "PARK", False, PutAuthority.DEF, 1)
    assert list(lake.planned_messages(plan)) == [
        PlannedMessage(0, full["message_key"], "QM1", "DLQ", Disposition.PLANNED, (retry, forward)),
        PlannedMessage(1, other["message_key"], "QM1", "DLQ", Disposition.UNMATCHED, ()),
        PlannedMessage(2, plain["message_key"], "QM1", "DLQ", Disposition.UNPROCESSABLE, ()),
    ]


def test_the_counts_in_a_plans_description_add_up(tmp_path: Path) -> None:
    rows = [
        *(dead_letter(n, dlh_reason=2053, dlh_dest_q_name=q) for n, q in enumerate("ABA")),
        dead_letter(3, dlh_dest_q_name="PAY", reply_to_q="REPLIES"),
        dead_letter(4, persistence=1),
        no_dead_letter(5),
    ]

    plan = plan_of(tmp_path, rows)

    assert lake.read_plan(plan) == PlanDescription(
        plan_id="s1-abc",
        plan_hash=plan_hash(lake.planned_messages(plan)),
        snapshot_ids=("s1",),
        rules_digest=parse(RULES).digest,
        messages=6,
        dispositions={"planned": 4, "unmatched": 1, "unprocessable": 1},
        counts=(
            StepCount(1, "RETRY", "A", "", 1, 2),
            StepCount(1, "RETRY", "B", "", 1, 1),
            StepCount(2, "FWD", "REPLIES", "PARK", 2, 1),
        ),
    )


def test_spark_and_python_agree_on_odd_values_and_on_the_hash(tmp_path: Path) -> None:
    """Quotes, separators, NULs, blanks, characters beyond the BMP, nulls; two buckets."""
    rows = odd_rows()

    plan = plan_of(tmp_path, rows)

    expected = by_python(rows, RULES)
    assert list(lake.planned_messages(plan)) == expected
    assert lake.read_plan(plan).plan_hash == plan_hash(expected)
    assert {message.disposition for message in expected} == set(Disposition)


@pytest.mark.parametrize("partitions", [1, 2, 7, 200] if WHOLE else [1, 7])
@pytest.mark.parametrize("strategy", Strategy)
def test_the_plan_hash_does_not_depend_on_partitions_or_strategy(
    spark: Any, tmp_path: Path, partitions: int, strategy: Strategy
) -> None:
    rows = [{**row, "browse_seq": 2000 * number} for number, row in enumerate(odd_rows() * 4)]
    table = parse(RULES)
    snapshot = write_rows(str(tmp_path), rows, table, rows_to_a_group=1)
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    bounds = Bounds(strategy=strategy, rows_to_a_task=-(-len(rows) // partitions))

    plan = evaluate(snapshot, plan=str(tmp_path / "plan"), bounds=bounds)

    spark.conf.unset("spark.sql.shuffle.partitions")
    assert plan.plan_hash == plan_hash(by_python(rows, RULES))


def test_nulls_in_a_snapshot_are_compared_as_blanks(tmp_path: Path) -> None:
    """A snapshot from elsewhere may hold nulls in a dead letter: they meet as blank and 0."""
    row = {**dead_letter(0), "dlh_dest_q_name": None, "dlh_reason": None, "reply_to_q": None}
    table = parse("DESTQ(' ') REASON(0) ACTION(FWD) FWDQ(&REPLYQ)\n")

    evaluate(write_rows(str(tmp_path), [row], table), plan=str(tmp_path / "plan"))

    (planned,) = lake.planned_messages(str(tmp_path / "plan"))
    assert [step.target_q for step in planned.steps] == [""]


def test_a_rule_without_patterns_matches_every_dead_letter(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [dead_letter(0), no_dead_letter(1)], "ACTION(DISCARD)\n")

    assert lake.read_plan(plan).dispositions == {"planned": 1, "unmatched": 0, "unprocessable": 1}


def test_an_empty_snapshot_makes_an_empty_plan(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [])

    assert list(lake.planned_messages(plan)) == []
    assert lake.read_plan(plan).plan_hash == plan_hash([])


def test_a_queue_name_may_have_characters_that_paths_cannot(tmp_path: Path) -> None:
    snapshot = take_snapshot(str(tmp_path), [dead_letter(0)], RULES, queue="A/B%C")
    plan = lake.plan_directory(str(tmp_path), "p")

    evaluate(snapshot, plan=plan)

    assert [message.queue for message in lake.planned_messages(plan)] == ["A/B%C"]


def test_plan_files_are_sorted_and_private(tmp_path: Path) -> None:
    plan = Path(plan_of(tmp_path, odd_rows()))

    for part in plan.glob("part-*.parquet"):
        numbers = pq.read_table(part)["browse_seq"].to_pylist()
        assert numbers == sorted(numbers)
    assert {stat.S_IMODE(path.stat().st_mode) for path in plan.rglob("*")} == {0o600}


def test_an_equal_finished_plan_is_not_written_again(tmp_path: Path) -> None:
    plan = Path(plan_of(tmp_path, odd_rows()))
    before = {path: path.stat().st_mtime_ns for path in plan.iterdir()}

    again = evaluate(str(next(tmp_path.glob("snapshots/*/*/s1"))), plan=str(plan))

    assert {path: path.stat().st_mtime_ns for path in plan.iterdir()} == before
    assert again == lake.read_plan(str(plan))


def test_a_different_finished_plan_is_an_error(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [dead_letter(0)])
    description = lake.read_plan(plan)
    lake.finish_plan(plan, replace(description, plan_hash="0" * 64))

    with pytest.raises(LakeError) as caught:
        evaluate(str(next(tmp_path.glob("snapshots/*/*/s1"))), plan=plan)

    assert str(caught.value) == (
        f"{plan} is a finished plan with hash {'0' * 64}, this evaluation has"
        f" {description.plan_hash}; give it another plan id [MQDLQ-410]"
    )


def test_files_of_a_failed_evaluation_are_not_in_the_plan(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [dead_letter(0)])
    (Path(plan) / "_PLAN.json").unlink()

    evaluate(str(next(tmp_path.glob("snapshots/*/*/s1"))), plan=plan)

    assert len(list(lake.planned_messages(plan))) == 1


def edit_manifest(snapshot: str, **values: object) -> None:
    place = Path(snapshot) / "_MANIFEST.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), **values}))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"messages": 7},
            ("snapshot s1 holds 1 messages, its manifest says 7; take a new snapshot [MQDLQ-408]"),
        ),
        (
            {"rules_digest": "beef"},
            (
                "{snapshot}: its rules have the digest {digest}, its manifest says beef; take"
                " a new snapshot [MQDLQ-402]"
            ),
        ),
    ],
)
def test_a_snapshot_that_contradicts_its_description_is_refused(
    tmp_path: Path, values: dict[str, object], text: str
) -> None:
    snapshot = take_snapshot(str(tmp_path), [dead_letter(0)], RULES)
    edit_manifest(snapshot, **values)

    with pytest.raises(LakeError) as caught:
        evaluate(snapshot, plan=str(tmp_path / "plan"))

    assert str(caught.value) == text.format(snapshot=snapshot, digest=parse(RULES).digest)
    assert lake.find_plan(str(tmp_path / "plan")) is None


def test_invalid_input_fails_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["--snapshot", str(tmp_path), "--plan", str(tmp_path / "plan")])

    assert code == 2  # by which Airflow knows that another attempt would be refused, too
    assert capsys.readouterr().err == (
        f"evaluate_rules: {tmp_path} is not a snapshot, as it has no _MANIFEST.json; take"
        " a new snapshot [MQDLQ-418]\n"
    )


def submitted(snapshot: str, plan: str) -> subprocess.CompletedProcess[str]:
    """Run the application as the DAG does: in its own process, with its own JVM."""
    conf = [word for item in submit_conf(0).items() for word in ("--conf", "=".join(item))]
    application = str(PROJECT / "spark" / "evaluate_rules.py")
    return subprocess.run(
        [
            str(Path(sys.executable).with_name("spark-submit")),
            *("--master", "local[2]", *conf, application),
            *("--snapshot", snapshot, "--plan", plan),
        ],
        env={**os.environ, **submit_environment()},
        capture_output=True,
        text=True,
        check=False,
    )


def test_spark_submit_runs_the_evaluation(tmp_path: Path) -> None:
    snapshot = take_snapshot(str(tmp_path), odd_rows(), RULES)
    plan = lake.plan_directory(str(tmp_path), "s1-abc")

    ended = submitted(snapshot, plan)

    assert ended.returncode == 0, ended.stderr
    hashed = plan_hash(by_python(odd_rows(), RULES))
    assert lake.read_plan(plan).plan_hash == hashed
    said = ended.stdout.splitlines()
    assert [said[0], said[2]] == [
        "evaluate_rules: snapshot s1: 112 messages, 4 rules",
        f"evaluate_rules: plan s1-abc: 107 planned, 3 unmatched, 2 unprocessable, hash {hashed}",
    ]


def test_spark_submit_of_a_missing_snapshot_fails_with_one_line(tmp_path: Path) -> None:
    ended = submitted(str(tmp_path), str(tmp_path / "plan"))

    assert (ended.returncode, ended.stdout) == (
        2,
        (
            f"evaluate_rules: {tmp_path} is not a snapshot, as it has no _MANIFEST.json;"
            " take a new snapshot [MQDLQ-418]\n"
        ),
    )
    assert "Exception" not in ended.stderr


@pytest.mark.parametrize(("nul_as_blank", "planned"), [(False, 0), (True, 1)])
def test_nuls_are_blanks_only_if_the_snapshot_says_so(
    tmp_path: Path, nul_as_blank: bool, planned: int
) -> None:
    rows = [dead_letter(1, dlh_dest_q_name="MY.QUEUE\0\0")]
    snapshot = take_snapshot(
        str(tmp_path), rows, "DESTQ(MY.QUEUE) ACTION(RETRY)\n", nul_as_blank=nul_as_blank
    )

    plan = evaluate(snapshot, plan=lake.plan_directory(str(tmp_path), "s1-abc"))

    assert plan.dispositions["planned"] == planned


def test_rules_of_a_backout_queue_plan_for_messages_without_an_mqdlh_only(tmp_path: Path) -> None:
    rows = [dead_letter(1), {**no_dead_letter(2), "format": "MQSTR"}, no_dead_letter(3)]
    rules = "INPUTQ(ORDERS.BACKOUT)\nFORMAT(MQSTR) ACTION(FWD) FWDQ(PARKED)\n"
    snapshot = take_snapshot(str(tmp_path), rows, rules, queue_kind=QueueKind.BACKOUT)

    plan = evaluate(snapshot, plan=lake.plan_directory(str(tmp_path), "s1-abc"))

    assert plan.dispositions == {"unprocessable": 1, "planned": 1, "unmatched": 1}
    assert [(count.rule_line, count.target_q) for count in plan.counts] == [(2, "PARKED")]
