"""Several handlers and their runs, for pages: made by the real stages over an embedded QM1.

`make_demo_world(directory)` returns a World (see `tests.support.world`) whose directory is
MQDLQ_HOME, with these handlers in MQDLQ_RULES_DIR:

- `demo` (queue DLQ, captures payload): a dry run `DRY`, a run `FIRST` with every frequent outcome,
  a run `LAST` that leaves 7 messages which need attention, and a run `FAILED` that lost its
  connection.
- `names` (queue NAMES.DLQ, captures payload): messages of the run `NAMES` have the names `HOSTILE`
  in every field, and expire within a few hours.
- `payments` (queue PAYMENTS.DLQ): the run `WAITING` waits for an approval of its discards.
- `quiet` (queue QUIET.DLQ): the run `EMPTY` found nothing.
- `never`: no run. `secret`: the run `HIDDEN`, of a DAG that only administrators may read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import embedded_mq
from mqdlq.errors import QueueManagerError
from mqdlq.handlers import load_handler
from mqdlq.headers import DeadLetterHeader, RulesHeader2
from mqdlq.ledger.tables import Look, Run
from mqdlq.reading.report.files import write_report
from mqdlq.stages.approve import review_plan
from mqdlq.stages.diagnosing import diagnose_run
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense import inquire_depth
from mqdlq.stages.snapshot.capture import SnapshotOptions
from mqdlq.stages.snapshot.taking import record_causes
from tests.support.world import NOON, Clock, World

DRY: Final = "demo-manual__dry"
FIRST: Final = "demo-scheduled__first"
LAST: Final = "demo-scheduled__last"
FAILED: Final = "demo-manual__failed"
WAITING: Final = "payments-manual__waiting"
EMPTY: Final = "quiet-scheduled__empty"
HIDDEN: Final = "secret-manual__hidden"
NAMES: Final = "names-manual__hostile"

HOSTILE: Final = (
    "<script>alert('x')</script><img src=x onerror=1>",
    "\"'`&amp;{{7*7}}{% raw %}",
    "\u202eyenom\u202c \u05e9\u05dc\u05d5\u05dd",
    "\x1b[31mred\x1b[0m\a\b",
    "W" * 48,
    "\u65e5" * 16,
)
"""Names that a message can have and nobody should choose: HTML, templates, RTL, ANSI, 48 wide."""

DEFINITIONS: Final = """
ALTER QMGR DEADQ(DLQ)
DEFINE QLOCAL(DLQ) DEFPSIST(YES) MAXDEPTH(5000)
DEFINE QLOCAL(PAYMENTS.DLQ) DEFPSIST(YES)
DEFINE QLOCAL(QUIET.DLQ) DEFPSIST(YES)
DEFINE QLOCAL(NAMES.DLQ) DEFPSIST(YES)
DEFINE QLOCAL(SECRET.DLQ) DEFPSIST(YES)
DEFINE QLOCAL(NEVER.DLQ) DEFPSIST(YES)
DEFINE QLOCAL(MQDLQ.STATE) DEFPSIST(YES)
DEFINE QLOCAL(PAYMENTS.STATE) DEFPSIST(YES)
DEFINE QLOCAL(PAYMENTS) DEFPSIST(YES)
DEFINE QLOCAL(ORDERS.PARKED) DEFPSIST(YES)
DEFINE QLOCAL(CLOSED) PUT(DISABLED)
"""
TABLE: Final = """\
* The rules of the demo
RETRYINT(60) WAIT(NO)

APPLNAME('legal-hold*') ACTION(IGNORE)
DESTQ(PAYMENTS) REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)
DESTQ(CLOSED) ACTION(RETRY) RETRY(2)
DESTQ(ORDERS.*) REASON(MQRC_UNKNOWN_OBJECT_NAME) ACTION(FWD) FWDQ(ORDERS.PARKED) HEADER(YES)
DESTQ(QUOTES.*) ACTION(DISCARD)
DESTQ(NOBODY.*) REASON(MQRC_NOT_AUTHORIZED) ACTION(IGNORE)
"""
DIAGNOSED: Final = ("demo", "names")
Q_FULL, PUT_INHIBITED, NO_QUEUE, NO_AUTHORITY = 2053, 2051, 2085, 2035
UTF_8: Final = 1208
ALL_WELL: Final = dict.fromkeys(
    ("sense", "snapshot", "evaluate", "approve", "execute", "retry"), "success"
)


def write_handlers(directory: Path) -> None:
    """Write the handlers' files."""
    directory.mkdir(exist_ok=True)
    table = "INPUTQ({queue})\nREASON(MQRC_Q_FULL) ACTION(DISCARD)\n"
    files = {
        "demo.yaml": "connection: mq\nrules: demo.rules\npayload: full\nowner: integration\n",
        "demo.rules": TABLE,
        "names.yaml": "connection: mq\nrules: names.rules\npayload: {head: 20}\n",
        "payments.yaml": (
            "connection: mq\nrules: payments.rules\nstate_queue: PAYMENTS.STATE\n"
            "approval: {discard: true}\n"
        ),
    }
    for name in ("quiet", "never", "secret"):
        files[f"{name}.yaml"] = f"connection: mq\nrules: {name}.rules\n"
    for name in ("names", "payments", "quiet", "never", "secret"):
        files[f"{name}.rules"] = table.format(queue=f"{name.upper()}.DLQ")
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")


def make_demo_world(directory: Path, now: datetime = NOON, ledger_url: str = "") -> World:
    """Make the world, or open the one that the directory has; its last run has just ended `now`.

    It sets MQDLQ_HOME and MQDLQ_RULES_DIR.
    """
    is_made = (directory / "ledger.db").exists()
    directory.mkdir(parents=True, exist_ok=True)
    write_handlers(directory / "handlers")
    os.environ["MQDLQ_RULES_DIR"] = str(directory / "handlers")
    os.environ["AIRFLOW_CONN_MQ"] = (
        '{"conn_type": "ibmmq", "extra": {"queue_manager": "QM1", "transport": "embedded"}}'
    )
    clock = Clock(now - timedelta(hours=30))
    world = World(directory, definitions=DEFINITIONS, clock=clock, ledger_url=ledger_url)
    if ledger_url:
        os.environ["MQDLQ_LEDGER_URL"] = ledger_url
    if not is_made:
        _first_day(world)
        clock.now = now - timedelta(hours=2)
        _other_handlers(world)
        _last_runs(world)
    clock.now = now
    return world


def _first_day(world: World) -> None:
    for number in range(6):
        dead_letter(world, "PAYMENTS", Q_FULL, f"payment {number}", put_appl_name="payments-in")
    for number in range(5):
        dead_letter(world, f"ORDERS.{number % 2}", NO_QUEUE, f"order {number}")
    for number in range(3):
        dead_letter(world, "QUOTES.OLD", Q_FULL, f"quote {number}", put_appl_name="quotes")
    dead_letter(world, "PAYMENTS", Q_FULL, "held", put_appl_name="legal-hold-7")
    world.put("DLQ", b"no header at all", Format=b"MQSTR   ")
    run(world, "demo", DRY, dry_run=True)
    world.clock.sleep(1800)
    run(world, "demo", FIRST)


def _other_handlers(world: World) -> None:
    for number in range(4):
        dead_letter(world, "PAYMENTS", Q_FULL, f"reversal {number}", queue="PAYMENTS.DLQ")
    dead_letter(world, "PAYMENTS", Q_FULL, "secret", queue="SECRET.DLQ")
    for number, name in enumerate(HOSTILE):
        names = {"put_appl_name": name, "user_identifier": name}
        left_s = 6 * 3600 + number
        dead_letter(world, name, NO_QUEUE, name, queue="NAMES.DLQ", expires_in_s=left_s, **names)
    run(world, "names", NAMES)
    run(world, "payments", WAITING, is_approved=False)
    run(world, "quiet", EMPTY)
    run(world, "secret", HIDDEN)


def _last_runs(world: World) -> None:
    for number in range(2):
        dead_letter(world, "CLOSED", PUT_INHIBITED, f"closed {number}", put_appl_name="payments-in")
    for number in range(2):
        dead_letter(world, "CRM.UPDATES", NO_AUTHORITY, f"update {number}", put_appl_name="crm")
    dead_letter(world, "AMQ.5F3A9C2B20A9E101", NO_QUEUE, "reply 1", put_appl_name="requester")
    dead_letter(world, "AMQ.5F3A9C2B20A9E102", NO_QUEUE, "reply 2", put_appl_name="requester")
    run(world, "demo", LAST)
    world.clock.sleep(1200)
    dead_letter(world, "PAYMENTS", Q_FULL, "late", put_appl_name="payments-in")
    run(world, "demo", FAILED, fault="MQOPEN[DLQ]:1:2009:before")


def run(
    world: World,
    handler: str,
    run_id: str,
    *,
    dry_run: bool = False,
    is_approved: bool = True,
    fault: str = "",
    **given: Any,
) -> Run:
    """Run a handler from its snapshot to its report; without approval the run waits there.

    `given` are more of the run's options.
    """
    configuration = load_handler(handler)
    dag_run_id = run_id.removeprefix(f"{handler}-")
    options = RunOptions(dry_run=dry_run, dag_run_id=dag_run_id, **given)
    begun = world.begin(run_id, configuration, options)
    depth, limit = inquire_depth(begun, world.settings)
    look = Look(depth, True, f"{depth} messages", world.clock(), limit)
    world.ledger.runs.record_look(run_id, look)
    world.snapshot(begun, **_snapshot_options(configuration))
    record_causes(begun, ledger=world.ledger)
    states: Mapping[str, str] = ALL_WELL
    if not is_approved:
        review_plan(world.execution(begun), world.evaluate(begun), configuration.approval)
        return begun
    if handler in DIAGNOSED:
        diagnose_run(begun, world.settings, world.ledger, world.clock)
    world.accept(begun)
    if not _execute(world, begun, fault):
        states = {**ALL_WELL, "execute": "failed", "retry": "upstream_failed"}
    world.clock.sleep(5)
    files = write_report(
        run_id, ledger=world.ledger, lake_root=world.lake_root, stages=states, clock=world.clock
    )
    world.ledger.accounts.oldest_that_stays(begun, files.oldest_left)
    return begun


def _snapshot_options(handler: Any) -> dict[str, Any]:
    options = SnapshotOptions.from_handler(handler)
    return {name: getattr(options, name) for name in options.__dataclass_fields__}


def _execute(world: World, begun: Run, fault: str) -> bool:
    """Make all passes of a run; return False if a fault ended them."""
    execution = world.execution(begun)
    embedded_mq.faults.set(fault)
    try:
        result = make_pass(execution)
        while result.next_pass_at is not None:
            world.clock.now = result.next_pass_at
            result = make_pass(execution)
        settle(execution)
    except QueueManagerError:
        return False
    finally:
        embedded_mq.faults.set("")
    return True


def dead_letter(
    world: World,
    dest_q: str,
    reason: int,
    body: str,
    *,
    queue: str = "DLQ",
    put_appl_name: str = "orders",
    user_identifier: str = "APP1",
    expires_in_s: int = 0,
    properties: str = "",
) -> None:
    """Put a dead letter in UTF-8, dead-lettered a minute ago by the world's clock.

    `properties` is a folder of an MQRFH2 between header and body.
    """
    at = world.clock() - timedelta(minutes=1)
    fields: dict[str, Any] = {"Expiry": expires_in_s * 10} if expires_in_s else {}
    world.put(
        queue,
        message_data(dest_q, reason, body, at, properties),
        Format=b"MQDEAD  ",
        Encoding=546,
        CodedCharSetId=UTF_8,
        PutApplName=_cut(put_appl_name, 28),
        UserIdentifier=_cut(user_identifier, 12),
        PutDate=f"{at:%Y%m%d}".encode(),
        PutTime=f"{at:%H%M%S}00".encode(),
        **fields,
    )


def message_data(dest_q: str, reason: int, body: str, at: datetime, properties: str = "") -> bytes:
    """Return the data of a dead letter: MQDLH, MQRFH2 if there are properties, and body."""
    behind, front = "MQSTR", b""
    if properties:
        folder = properties + " " * (-len(properties.encode()) % 4)
        rfh2 = RulesHeader2(546, UTF_8, "MQSTR", 0, UTF_8, (folder,))
        behind, front = "MQHRF2", rfh2.encode(encoding=546, ccsid=UTF_8)
    when = (f"{at:%Y%m%d}", f"{at:%H%M%S}00")
    header = DeadLetterHeader(reason, dest_q, "QM1", 546, UTF_8, behind, 6, "amqrmppa", *when)
    return header.encode(encoding=546, ccsid=UTF_8) + front + body.encode()


def _cut(name: str, width: int) -> bytes:
    """Encode a name into a field, without the half of a character at its end."""
    return name.encode()[:width].decode(errors="ignore").encode()
