"""A fault at the first call of every stage: what a person reads of the run then.

Operators, queue manager, ledger, lake and faults are real. Airflow's
API is replaced by a dictionary; the evaluation is Spark's where it is the stage that fails.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk import DAG, BaseNotifier
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from mqdlq.airflow.dags.handler_runs import build_handler_dag
from mqdlq.airflow.operators.restore import Restore
from mqdlq.airflow.params import form
from mqdlq.errors import LedgerError, MqDlqError
from mqdlq.evaluation.spark_conf import submit_conf
from mqdlq.failures import describe
from mqdlq.handlers import load_handler
from mqdlq.ledger import open_ledger
from mqdlq.reading.report.files import failures_behind, read_ended_report
from mqdlq.reading.report.markdown import code
from tests.support.world import NOON, World

pytestmark = pytest.mark.slow

CONNECTIONS = {
    "AIRFLOW_CONN_MQ": {
        "conn_type": "ibmmq",
        "extra": {"queue_manager": "QM1", "transport": "embedded"},
    },
    "AIRFLOW_CONN_SPARK_DEFAULT": {
        "conn_type": "spark",
        "host": "local[1]",
        "extra": {"deploy-mode": "client"},
    },
}
STAGES = ("sense", "snapshot", "evaluate", "approve", "execute", "retry", "report")
RUN_ID = "small-manual__1"
BODY = b"CANARY-OF-A-BODY"
ID = re.compile(r"\[(MQDLQ-\d+)\]")


class Told(BaseNotifier):
    """A notifier that keeps the texts it receives."""

    texts: list[str] = []  # noqa: RUF012 (one list, which the test empties)
    template_fields = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        del context
        self.texts.append(self.text)


@dataclass
class Handling:
    """A run of the handler `small`, task by task; `xcoms` and `states` are those of Airflow."""

    world: World
    xcoms: dict[tuple[str, str], Any] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rules = self.world.directory / "rules"
        self.rules.mkdir(exist_ok=True)
        (self.rules / "small.yaml").write_text(
            "connection: mq\nrules: small.rules\nalerts:\n  notify:\n"
            f"    - notifier: {__name__}.Told\n"
            "      arguments: {text: '{{ alert.title }} | {{ alert.text }}'}\n"
        )
        (self.rules / "small.rules").write_text("INPUTQ(DLQ) WAIT(NO)\nACTION(RETRY)\n")
        handler = load_handler("small", self.rules)
        self.dag: DAG = build_handler_dag(handler, "default_pool", self.rules)

    def run(self, *tasks: str) -> BaseException | None:
        """Run tasks until one fails; return why, None if all succeed."""
        for task in tasks:
            self.xcoms = {key: left for key, left in self.xcoms.items() if key[0] != task}
            context = self.context(task)
            try:
                if task == "evaluate":
                    self._evaluate()
                else:
                    context["ti"].xcom_push(
                        "return_value", task_of(self.dag, task).execute(context)
                    )
            except (MqDlqError, AirflowException) as error:
                self.states[task] = "failed"
                return error
            self.states[task] = "success"
        return None

    def fail_at(self, stage: str, fault: Callable[[World], None]) -> BaseException:
        """Run all tasks, with a fault from before this stage on; return how the report ends."""
        at = STAGES.index(stage)
        assert self.run(*STAGES[:at]) is None
        fault(self.world)
        if stage != "report":
            assert self.run_faulty(stage) is not None
            self.states |= dict.fromkeys(STAGES[at + 1 : -1], "upstream_failed")
        error = self.run("report")
        assert error is not None
        return error

    def run_faulty(self, stage: str) -> BaseException | None:
        if stage != "evaluate":
            return self.run(stage)
        task: Any = self.dag.get_task("evaluate")
        made = self.xcoms["snapshot", "return_value"]
        task.conf = submit_conf(3)
        task.application_args = ["--snapshot", made["snapshot"], "--plan", made["plan"]]
        try:
            task.execute(self.context("evaluate"))
        except AirflowException as error:
            self.states["evaluate"] = "failed"
            return error
        finally:
            task._hook._submit_sp.stdout.close()  # which Airflow leaves open
        return None

    def _evaluate(self) -> None:
        with open_ledger() as ledger:
            run = ledger.runs.get(RUN_ID)
        assert run is not None
        self.world.evaluate(run)

    def context(self, task_id: str) -> Any:
        def push(key: str, value: Any) -> None:
            self.xcoms[task_id, key] = json.loads(json.dumps(value))

        ti = SimpleNamespace(
            id=uuid4(),
            try_number=1,
            max_tries=0,
            stats_tags={},
            xcom_push=push,
            xcom_pull=lambda task_ids, key="return_value": self.xcoms.get((task_ids, key)),
            get_task_states=lambda **_: {"manual__1": dict(self.states)},
        )
        dag_run = SimpleNamespace(
            run_id="manual__1",
            run_type=SimpleNamespace(value="manual"),
            conf={},
            triggering_user_name="alice",
        )
        return {
            "ti": ti,
            "dag_run": dag_run,
            "params": {name: schema.get("default") for name, schema in form().items()},
            "task_state_store": SimpleNamespace(get=lambda _: None, set=lambda *_, **__: None),
            "outlet_events": defaultdict(lambda: SimpleNamespace(extra={})),
        }

    def report(self) -> tuple[str, str, Any]:
        """Return the text, the page and the document of the run's report."""
        directory = self.world.directory / "reports" / RUN_ID
        files = [(directory / f"report.{kind}").read_text() for kind in ("txt", "html", "json")]
        return files[0], files[1], json.loads(files[2])

    def note(self) -> str:
        return str(self.xcoms["report", "run_note"]["note"])


def task_of(dag: DAG, task_id: str) -> Any:
    return dag.get_task(task_id)


@pytest.fixture(name="handling")
def _handling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Handling]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path / "rules"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name, connection in CONNECTIONS.items():
        monkeypatch.setenv(name, json.dumps(connection))
    Told.texts.clear()
    world = World(tmp_path)
    world.clear("DLQ")
    for _ in range(3):
        world.dead_letter(BODY)
    yield Handling(world)
    with suppress(OSError):
        world.ledger.close()


def inhibit_gets(world: World) -> None:
    world.mqsc("ALTER QLOCAL(DLQ) GET(DISABLED)")


def delete_the_queue(world: World) -> None:
    world.mqsc("DELETE QLOCAL(DLQ) PURGE")


def spoil_the_ledger(world: World) -> None:
    world.ledger.close()
    for file in world.directory.glob("ledger.db*"):
        file.unlink()
    (world.directory / "ledger.db").write_bytes(b"no database " * 1000)


def spoil_the_lake(world: World) -> None:
    lake = Path(world.lake_root)
    if lake.exists():
        lake.rename(lake.with_name("moved"))
    lake.write_text("no directory")


Fault = Callable[[World], None]
FAULTS: dict[Fault, tuple[str, str]] = {
    delete_the_queue: (
        "MQOPEN of queue DLQ failed: MQRC_UNKNOWN_OBJECT_NAME (2085) [MQDLQ-100]",
        (
            "define the queue, or correct the name that is used;"
            " then clear the task, or run the handler again"
        ),
    ),
    inhibit_gets: (
        "MQGET (browse) of queue DLQ failed: MQRC_GET_INHIBITED (2016) [MQDLQ-100]",
        (
            "ask who inhibited gets, then set GET(ENABLED);"
            " then clear the task, or run the handler again"
        ),
    ),
    spoil_the_ledger: (
        (
            "the ledger sqlite:///HOME/ledger.db cannot be used: the file is not an SQLite"
            " database; name another file, or restore a backup [MQDLQ-218]"
        ),
        "correct the URL, or restore the file (back-up-and-restore-the-ledger.md)",
    ),
    spoil_the_lake: (
        "HOME/lake is not a directory; correct MQDLQ_LAKE [MQDLQ-230]",
        "correct the setting",
    ),
}
"""By fault: the error that a person reads, and the next step."""
HEADLINES = {
    "sense": "The run failed at sense; nothing was touched.",
    "snapshot": "The run ended at snapshot before it took a snapshot; nothing was touched.",
    **{
        stage: f"The run ended at {stage}: none of 3 messages was acted on; nothing was touched."
        for stage in ("evaluate", "approve", "execute")
    },
    "retry": "3 messages: 3 handled. The account does not add up. The run failed at retry.",
}
UNREADABLE = (
    "; the snapshot cannot be read: [Errno 20] Not a directory:"
    " 'HOME/lake/snapshots/queue_manager=QM1/queue=DLQ/ID/_MANIFEST.json'"
)
NOT_BROWSED = "; the queue was not browsed again, so nothing is proven"
OF_SPARK = (
    (
        "HOME/lake/snapshots/queue_manager=QM1/queue=DLQ/ID/_MANIFEST.json cannot be used (Not a"
        " directory); give user id UID the rights to read and write it, or name another directory"
        " in MQDLQ_HOME [MQDLQ-232]"
    ),
    "`chown`, or another `MQDLQ_HOME`",
)
"""The words of Spark's driver about the lake, which it is given by its location."""
WITH_A_REPORT = [
    ("sense", delete_the_queue, ""),
    ("snapshot", inhibit_gets, ""),
    ("snapshot", spoil_the_lake, ""),
    ("evaluate", spoil_the_lake, UNREADABLE),
    ("approve", spoil_the_lake, UNREADABLE),
    ("execute", inhibit_gets, ""),
    ("execute", spoil_the_lake, UNREADABLE),
    ("retry", inhibit_gets, NOT_BROWSED),
    ("retry", spoil_the_lake, NOT_BROWSED + UNREADABLE),
]
"""Evaluation and approval call no queue manager, and sense reads no lake."""


def plain(handling: Handling, text: str) -> str:
    """Return a text without its line breaks, and without the names that differ in each run."""
    text = re.sub(
        r"user id \d+", "user id UID", text.replace(str(handling.world.directory), "HOME")
    )
    # A long path is broken within a word.
    text = re.sub(r"(?<=[/\w=])\n(?=\w+=|ueue=|\w*/)", "", text)
    return " ".join(re.sub(r"\d{8}T\d{6}Z-\w{8}", "ID", text).split())


@pytest.mark.parametrize(("stage", "fault", "more"), WITH_A_REPORT)
def test_a_failed_run_says_why_wherever_a_person_reads_of_it(
    handling: Handling, stage: str, fault: Fault, more: str
) -> None:
    words, step = OF_SPARK if stage == "evaluate" else FAULTS[fault]
    why = f"stage {stage} failed: {words}{more}"

    error = handling.fail_at(stage, fault)

    assert isinstance(error, AirflowFailException)
    assert plain(handling, str(error)) == why
    # The text, which `mqdlq run` ends with, and the other two forms of the report:
    text, page, document = handling.report()
    head = text.partition("\n\n")[0].partition("\n")[2]
    assert plain(handling, head) == f"{HEADLINES[stage]} Why: {why} Next: {step}"
    (failure,) = document["failures"]
    assert plain(handling, failure.pop("why")) == words
    assert failure == {"task": stage, "error_id": ID.findall(words)[-1], "next_step": step}
    assert (document["failed"], plain(handling, document["why"])) == (True, why)
    for part in (why, words, step):
        assert part in html.unescape(plain(handling, page))
    # The alert and the note of the run in Airflow:
    assert plain(handling, Told.texts[-1]).partition(" | ")[2] == (
        f"{HEADLINES[stage]} {why} Next: {step}"
    )
    note = plain(handling, handling.note())
    assert note.startswith(f"Failed. {HEADLINES[stage]} Why: `{why[:120]}")
    assert f"Next: {code(step)}" in note
    # The ledger, and the report of it where the files are not:
    with open_ledger() as ledger:
        ((_, recorded),) = ledger.runs.failures(RUN_ID)
        for file in handling.world.directory.glob("reports/*/*"):
            file.unlink()
        again = read_ended_report(
            RUN_ID, ledger=ledger, lake_root=handling.world.lake_root, now=NOON
        )
    assert (recorded.task, plain(handling, recorded.why)) == (stage, words)
    assert again.failures == (recorded,)
    assert (again.failed, again.next_steps) == (True, step)
    # Nothing was touched, and no account is said not to add up:
    if stage != "retry":
        assert "account" not in HEADLINES[stage]
        assert (document["account"], document["without_outcome"]) == (None, 0)
        assert "Without an outcome" not in text
    assert BODY.decode() not in "".join((text, page, note, str(document), *Told.texts))


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "evaluate"])
def test_without_the_ledger_the_report_says_what_airflow_knows(
    handling: Handling, stage: str
) -> None:
    words, step = FAULTS[spoil_the_ledger]
    failed = [stage] if stage == "report" else [stage, "report"]

    error = handling.fail_at(stage, spoil_the_ledger)

    assert plain(handling, str(error)) == words
    first = (
        "The run failed, and its report could not be written. Whether it moved messages is not"
        " known here."
    )
    whys = [f"stage {one} failed: {words}" for one in failed]
    listed = " ".join(f"Why: {why}" for why in whys)
    assert [plain(handling, text) for text in Told.texts] == [
        f"small: the run failed, and has no report | {first} {listed} Next: {step}"
    ]
    noted = " ".join(f"Why: `{why}` Next: `{step}`" for why in whys)
    assert plain(handling, handling.note()) == f"Failed. {first} {noted}"


def test_a_stage_that_left_no_word_is_said_to_have_left_none(handling: Handling) -> None:
    """Its process was killed: Airflow marks it as failed, and nothing of ours has run."""
    assert handling.run("sense", "snapshot") is None
    handling.states |= {"evaluate": "failed", "approve": "upstream_failed"}

    error = handling.run("report")

    assert str(error) == (
        "stage evaluate failed: it was stopped, marked as failed by a person, or its process ended"
        " before it could say why; see the log of task evaluate in Airflow [MQDLQ-850]"
    )


def test_the_error_of_an_earlier_attempt_does_not_count_after_a_later_one(
    handling: Handling,
) -> None:
    assert handling.run("sense") is None
    inhibit_gets(handling.world)
    assert handling.run("snapshot") is not None
    handling.world.mqsc("ALTER QLOCAL(DLQ) GET(ENABLED)")

    assert handling.run(*STAGES[1:]) is None

    _, _, document = handling.report()
    assert (document["failed"], document["why"], document["failures"]) == (False, "", [])
    with open_ledger() as ledger:
        failures = ledger.runs.failures(RUN_ID)
        assert [one.task for _, one in failures] == ["snapshot"]
        assert failures_behind(ledger.accounts.verdict_of(RUN_ID), failures) == []


def test_an_unexpected_error_is_named_by_its_class_only() -> None:
    failure = describe("execute", ValueError(f"{BODY!r} is not a number"))

    assert failure.why == (
        "an unexpected builtins.ValueError, whose words may hold data of messages; the log of task"
        " execute in Airflow has them [MQDLQ-335]"
    )


def test_a_restoration_leaves_why_it_failed(handling: Handling) -> None:
    context = handling.context("restore_small")

    with pytest.raises(LedgerError):
        Restore(task_id="restore_small", handler="small", directory=handling.rules).execute(context)

    why = (
        "restoration restore-manual__1 is not in the ledger; clear the task select, which records"
        " it [MQDLQ-712]"
    )
    assert handling.xcoms["restore_small", "run_note"]["note"] == (
        f"Why: `stage restore_small failed: {why}` Next: ``clear `select` and the tasks after it``"
    )
    with open_ledger() as ledger:
        ((_, failure),) = ledger.runs.failures("restore-manual__1")
    assert (failure.task, failure.why, failure.error_id) == ("restore_small", why, "MQDLQ-712")
