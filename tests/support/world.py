"""A world for tests of handling: an embedded queue manager, a lake, a ledger and a clock.

The stages are real. Only the evaluation runs in this process instead of in Spark; it uses the same
matcher, and tests/spark proves that Spark's plan is equal.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import embedded_mq
from mqdlq import directories, lake
from mqdlq.errors import QueueManagerError
from mqdlq.handlers import Handler, check
from mqdlq.headers import DeadLetterHeader
from mqdlq.lake import PlanDescription, SnapshotManifest, StepCount, selected
from mqdlq.lake.schema import PLAN, steps_text
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import Run, TakenSnapshot
from mqdlq.model import Disposition, Outcome, PlannedMessage
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect
from mqdlq.plan import resolve, steps_for, steps_without_a_dlh
from mqdlq.resources import Resources
from mqdlq.rules import freeze, parse
from mqdlq.stages.execute import Execution, PassResult, accept_plan, make_pass, settle
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense import prepare_run
from mqdlq.stages.snapshot.capture import SnapshotOptions
from mqdlq.stages.snapshot.taking import take_snapshot
from tests.support.plan_hashes import plan_hash
from tests.support.write_locks import require_write_locks

DEFINITIONS = """
ALTER QMGR DEADQ(DLQ)
DEFINE QLOCAL(DLQ) DEFPSIST(YES)
DEFINE QLOCAL(MQDLQ.STATE) DEFPSIST(YES)
DEFINE QLOCAL(PAYMENTS) DEFPSIST(YES)
DEFINE QLOCAL(ORDERS) DEFPSIST(YES)
DEFINE QLOCAL(PARKED) DEFPSIST(YES)
DEFINE QLOCAL(CLOSED) PUT(DISABLED)
"""
ONLY_IN_VERSION_2 = {"GroupId", "MsgSeqNumber", "Offset", "MsgFlags", "OriginalLength"}
CONNECTIONS = "MQDLQ_CONNECTIONS"
"""The variable with the number of connections that move the messages of every world."""
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@dataclass
class Clock:
    """A clock that moves only when a test sets or sleeps it."""

    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def create_ledger(file: Path) -> None:
    """Copy an empty ledger to a new file, which takes a tenth of the time of creating one."""
    if not file.exists():
        file.touch(mode=0o600)
        file.write_bytes(_empty_ledger())


@cache
def _empty_ledger() -> bytes:
    with TemporaryDirectory() as directory:
        file = Path(directory) / "ledger.db"
        with open_ledger(f"sqlite:///{file}"):
            pass
        return file.read_bytes()


@cache
def _queue_manager(definitions: str, checks_headers: bool) -> Path:
    """Create QM1 once, to be copied; creating it waits for the disk several times."""
    directory = mkdtemp(prefix="mqdlq-tests-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    own = {"HDRCHECK": int(checks_headers)}
    return embedded_mq.create_defined("QM1", definitions, Path(directory), attributes=own)[0]


class _Statements(dict[tuple[Any, ...], Any]):
    """SQLAlchemy's compiled statements for all ledgers of the tests in this process.

    An engine has a cache of its own, and each ledger has an engine: to compile the same statements
    again would be half of the time of a test. The key's first part, the engine's dialect, makes way
    for what statements depend on.
    """

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(self._common(key), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__(self._common(key), compiled)

    def _common(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        dialect, *statement = key
        return (type(dialect), dialect.server_version_info, *statement)


_STATEMENTS = _Statements()


def open_for_tests(url: str) -> Ledger:
    """Open a ledger that shares its compiled statements with those of the other tests."""
    ledger = open_ledger(url)
    ledger.engine.update_execution_options(compiled_cache=_STATEMENTS)
    return ledger


class _Listener(logging.Handler):
    """Appends the messages of a log to a list."""

    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        self._told.append(record.getMessage())


@dataclass
class World:
    """The resources of one handler, in one directory."""

    directory: Path
    client: str | None = None
    definitions: str = DEFINITIONS
    clock: Clock = field(default_factory=Clock)
    runs: int = 0
    ledger_url: str = ""
    checks_headers: bool = False
    given: ConnectionSettings | None = None
    """A queue manager that already exists, instead of a new one."""
    connections: int = field(default_factory=lambda: int(os.environ.get(CONNECTIONS, "1")))
    """The handler's key, unless a test gives another one."""

    def __post_init__(self) -> None:
        self.settings = self.given or self._new_queue_manager()
        self.lake_root = str(self.directory / "lake")
        if not self.ledger_url:
            file = self.directory / "ledger.db"
            self.ledger_url = f"sqlite:///{file}"
            create_ledger(file)
        self.ledger: Ledger = open_for_tests(self.ledger_url)
        require_write_locks(self.ledger.engine)
        self.log = logging.getLogger("mqdlq.test")

    def _new_queue_manager(self) -> ConnectionSettings:
        os.environ["MQDLQ_HOME"] = str(self.directory)
        place = self.directory / "queue_managers"
        if not embedded_mq.exists("QM1", place):
            made = _queue_manager(self.definitions, self.checks_headers)
            directories.make_private_directory(place)
            shutil.copytree(made, place / made.name)
        return ConnectionSettings(
            "QM1", transport="embedded", client=self.client, directory=str(place)
        )

    def mqsc(self, text: str) -> None:
        place = self.settings.directory
        embedded_mq.run_mqsc("QM1", text, Path(place) if place else None)

    def clear(self, *queues: str) -> None:
        """Remove all messages from these queues."""
        self.mqsc("\n".join(f"CLEAR QLOCAL({queue})" for queue in queues))

    def connect(self) -> QueueManager:
        return connect(self.settings)

    # -- the stages

    def start(
        self,
        rules: str,
        *,
        dry_run: bool = False,
        run_id: str | None = None,
        message_keys: tuple[str, ...] = (),
        where: str = "",
        as_of: str = "",
        action: str | None = None,
        repair: dict[str, Any] | None = None,
        user: str = "",
        until_fixed: bool = False,
        allows_bodies: bool = False,
        **keys: Any,
    ) -> Run:
        """Start a run with a table, as text or in YAML; `keys` are those of the handler's YAML.

        `allows_bodies` lets its repairs replace bodies.
        """
        self.runs += 1
        folder = self.directory / "rules"
        folder.mkdir(exist_ok=True)
        (folder / "test.rules").write_text(rules, encoding="utf-8")
        table = check(rules, "test.yaml").table if rules.startswith("table:") else None
        keys |= {"table": freeze(table)} if table else {"rules": "test.rules"}
        keys.setdefault("connections", self.connections)
        if allows_bodies:
            keys |= {"repair": {"body": True}, "approval": {"second_person": ["discard"]}}
            keys["payload"] = "full"
        handler = Handler(name="test", directory=folder, connection="mq", **keys)
        given: dict[str, Any] = {"action": action, "repair": repair, "started_by_user": user}
        given |= {"where": where, "as_of": as_of, "until_fixed": until_fixed}
        options = RunOptions(dry_run=dry_run, message_keys=message_keys, **given)
        return self.begin(run_id or f"run-{self.runs}", handler, options)

    def begin(self, run_id: str, handler: Handler, options: RunOptions) -> Run:
        """Prepare a run and record it, as the operator `sense` does."""
        run = prepare_run(run_id, handler, options, Resources(**self._resources))
        if self.ledger.runs.get(run.run_id) is None:
            self.ledger.runs.record(run)
        return run

    def plan(self, rules: str, **options: Any) -> Execution:
        """Start a run, take its snapshot, evaluate and accept the plan; nothing is executed."""
        run = self.start(rules, **options)
        self.snapshot(run)
        self.accept(run)
        return self.execution(run)

    def snapshot(self, run: Run, told: list[str] | None = None, **options: Any) -> SnapshotManifest:
        """Take the run's snapshot; `told` receives its progress, `options` are the snapshot's."""
        execution = self.execution(run)
        if told is not None:
            log = logging.Logger("told")  # noqa: LOG001 (apart from the others)
            log.addHandler(_Listener(told))
            execution = replace(execution, log=log)
        return take_snapshot(execution, SnapshotOptions(**options))

    def recorded_snapshot(self, run_id: str) -> TakenSnapshot:
        """Return the ledger's record of a run's snapshot, which must exist."""
        found = self.ledger.snapshots.of_run(run_id)
        assert found is not None
        return found

    def accept(self, run: Run, plan_id: str = "") -> None:
        """Accept a plan, by default the plan of the run's snapshot, evaluated now."""
        accept_plan(self.execution(run), plan_id or self.evaluate(run))

    def execution(self, run: Run) -> Execution:
        return Execution(run=run, **self._resources)

    @property
    def _resources(self) -> dict[str, Any]:
        return {
            "settings": self.settings,
            "ledger": self.ledger,
            "lake_root": self.lake_root,
            "clock": self.clock,
            "sleep": self.clock.sleep,
            "log": self.log,
        }

    def evaluate(self, run: Run) -> str:
        """Evaluate the run's snapshot in this process; return the plan's id."""
        snapshot = self.recorded_snapshot(run.run_id)
        table = parse(run.rules_text, queue_kind=run.queue_kind, frozen=True)
        rows = []
        without_a_dlh = steps_without_a_dlh(table) if run.has_given_action else ()
        own = selected.chosen_batches(snapshot.location, lake.schema.HEADERS.names)
        for row in (row for batch in own for row in batch.to_pylist()):
            is_asked = table.acts_on(row["class"])
            steps = without_a_dlh
            if is_asked:
                steps = tuple(resolve(step, row) for step in steps_for(table, row))
            nothing = Disposition.UNMATCHED if is_asked else Disposition.UNPROCESSABLE
            rows.append(
                PlannedMessage(
                    row["browse_seq"],
                    row["message_key"],
                    run.queue_manager,
                    run.queue,
                    Disposition.PLANNED if steps else nothing,
                    steps,
                )
            )
        plan_id = lake.plan_id(snapshot.snapshot_id, run.rules_digest)
        directory = Path(lake.plan_directory(self.lake_root, plan_id))
        directory.mkdir(parents=True)
        columns = [_plan_row(row) for row in rows]
        pq.write_table(pa.Table.from_pylist(columns, schema=PLAN), directory / "part-0.parquet")
        dispositions = {d.value: sum(r.disposition is d for r in rows) for d in Disposition}
        lake.finish_plan(
            str(directory),
            PlanDescription(
                plan_id,
                plan_hash(rows),
                (snapshot.snapshot_id,),
                run.rules_digest,
                len(rows),
                dispositions,
                _first_steps(rows),
            ),
        )
        return plan_id

    def handle(self, rules: str, **options: Any) -> dict[int, str]:
        """Run the handler to its end; return each message's outcome by browse_seq."""
        execution = self.plan(rules, **options)
        result = make_pass(execution)
        while result.next_pass_at is not None:
            self.clock.now = result.next_pass_at
            result = make_pass(execution)
        settle(execution)
        return self.outcomes(execution.run)

    def outcomes(self, run: Run) -> dict[int, str]:
        booked = self.ledger.outcomes.of_run(run.run_id)
        found = {
            message.browse_seq: str(booked[message.message_id].outcome)
            for message in self.ledger.messages.of_run(run.run_id)
            if message.message_id in booked
        }
        snapshot = self.ledger.snapshots.of_run(run.run_id)
        if snapshot is not None and self.ledger.settled.outcomes(run.run_id):
            for batch in lake.settled_rows(snapshot.location, ["browse_seq", "outcome"]):
                found = {row["browse_seq"]: row["outcome"] for row in batch.to_pylist()} | found
        return found

    def passes(self, execution: Execution, count: int) -> list[PassResult]:
        """Make `count` passes, each as soon as it is due."""
        results = []
        for _ in range(count):
            results.append(make_pass(execution))
            self.clock.now = results[-1].next_pass_at or self.clock.now
        return results

    def interrupted_pass(self, execution: Execution, fault: str) -> None:
        """Make a pass that this fault interrupts."""
        embedded_mq.faults.set(fault)
        with pytest.raises(QueueManagerError):
            make_pass(execution)
        embedded_mq.faults.set("")

    # -- messages

    def put(self, queue: str, body: bytes, **fields: Any) -> None:
        """Put a message with these MQMD fields (all context is set)."""
        with self.connect() as queue_manager:
            module, constants = queue_manager.client.module, queue_manager.client.CMQC
            descriptor = module.MD()
            # Of version 1 unless it needs more: then no queue manager looks into MQ headers.
            descriptor.Version = 2 if ONLY_IN_VERSION_2 & fields.keys() else 1
            descriptor.Persistence = constants.MQPER_PERSISTENT
            descriptor.PutApplName = b"putter"
            descriptor.PutApplType = constants.MQAT_UNIX
            descriptor.PutDate, descriptor.PutTime = b"20261120", b"10203040"
            for name, value in fields.items():
                setattr(descriptor, name, value)
            pmo = module.PMO()
            pmo.Options = constants.MQPMO_SET_ALL_CONTEXT | constants.MQPMO_NO_SYNCPOINT
            target = module.OD()
            target.ObjectName = queue.encode()
            queue_manager.handle.put1(target, body, descriptor, pmo)

    def dead_letter(
        self,
        body: bytes = b"body",
        *,
        on: str = "DLQ",
        dest_q: str = "PAYMENTS",
        dest_q_mgr: str | None = None,
        reason: int = 2053,
        encoding: int = 546,
        ccsid: int = 819,
        inner: tuple[int, int, str] = (546, 819, "MQSTR"),
        **fields: Any,
    ) -> None:
        """Put a dead letter on a DLQ; `inner` is Encoding, CCSID and Format of its body.

        It was for this queue manager unless `dest_q_mgr` names another one.
        """
        place = self.settings.queue_manager if dest_q_mgr is None else dest_q_mgr
        header = DeadLetterHeader(reason, dest_q, place, *inner, 6, "mover", "20261121", "11000000")
        packed = header.encode(encoding=encoding, ccsid=ccsid)
        values = {"Format": b"MQDEAD  ", "Encoding": encoding, "CodedCharSetId": ccsid, **fields}
        self.put(on, packed + body, **values)

    def lose_first(self, queue: str = "DLQ") -> None:
        """Get the first message off a queue, as another application would."""
        with self.connect() as queue_manager:
            opened = queue_manager.open(queue, queue_manager.client.CMQC.MQOO_INPUT_AS_Q_DEF)
            opened.get()
            queue_manager.close(opened)

    def messages(self, queue: str) -> list[tuple[Any, bytes]]:
        """Return (the client's MQMD, body) of every message on a queue, by browse."""
        with self.connect() as queue_manager:
            module, constants = queue_manager.client.module, queue_manager.client.CMQC
            opened = queue_manager.open(queue, constants.MQOO_BROWSE)
            found = []
            while True:
                descriptor, gmo = module.MD(), module.GMO()
                descriptor.Version = constants.MQMD_VERSION_2
                gmo.Options = constants.MQGMO_BROWSE_NEXT | constants.MQGMO_NO_PROPERTIES
                try:
                    body = opened.get(None, descriptor, gmo)
                except module.MQMIError as error:
                    if error.reason != constants.MQRC_NO_MSG_AVAILABLE:
                        raise
                    break
                found.append((descriptor, bytes(body)))
            opened.close()
            return found

    def bodies(self, queue: str) -> list[bytes]:
        return [body for _, body in self.messages(queue)]

    def depths(self, *queues: str) -> tuple[int, ...]:
        return tuple(len(self.messages(queue)) for queue in queues)


def _plan_row(row: PlannedMessage) -> dict[str, Any]:
    columns = {name: getattr(row, name) for name in row.__dataclass_fields__}
    return columns | {"steps": steps_text(row.steps)}


def _first_steps(rows: Sequence[PlannedMessage]) -> tuple[StepCount, ...]:
    """Count the first steps of a plan, as the evaluation in Spark does."""
    first = (row.steps[0] for row in rows if row.steps)
    counted = Counter((s.rule, s.action, s.target_q, s.target_q_mgr, s.rule_line) for s in first)
    return tuple(StepCount(*step, number) for step, number in sorted(counted.items()))


__all__ = ["NOON", "Clock", "Outcome", "World"]
