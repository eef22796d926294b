"""The page about backfills, word by word, over snapshots of scheduled runs, on PostgreSQL."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from mqdlq.headers import DeadLetterHeader
from mqdlq.ledger.tables import TakenSnapshot
from tests.e2e.running.place import CONNECTION
from tests.e2e.running.services import ENDED, Airflow, airflow, now
from tests.support import postgresql
from tests.support.declared_commands import example_script
from tests.support.docs.console import Command, commands
from tests.support.paths import ROOT
from tests.support.world import DEFINITIONS, World

pytestmark = [pytest.mark.e2e, pytest.mark.long]

EXAMPLES = ("2026-11-16", "2026-11-18T23:59", "2026-11-18T06:00", "2026-11-18")
EVERY = timedelta(minutes=5)
BASH = shutil.which("bash") or "bash"
PAGE = commands(ROOT / "docs" / "how-to" / "backfill.md")
EXPORT, DRY_RUN, EVALUATE, OTHER_TABLE, APPLY, AIRFLOWS = PAGE
WOULD = (
    "1 of 1: Backfill of {window}: today's rules would treat {differ} of 2 messages differently."
    " Nothing was done; apply: true does it.\n"
)
SKIPPED = "over {run}, which Airflow skips unless the backfill reprocesses completed runs"


@dataclass
class Desk:
    """A running Airflow over PostgreSQL, and the interval in which a run took the snapshot."""

    running: Airflow
    world: World
    metadata: str
    start: datetime
    taken: TakenSnapshot

    def call(self, command: Command | str, *more: tuple[str, str]) -> tuple[int, str, str]:
        """Call a command of the page after its first one, for this world's metadata and interval.

        `more` are further words to replace.
        """
        text = command if isinstance(command, str) else command.text
        start = f"{self.start:%Y-%m-%dT%H:%M}"
        name, _, example = EXPORT.text.partition("=")
        assert example == "postgresql+psycopg://airflow@db.example.com/airflow"
        program = f"{name}='{self.metadata}'\n{text}"
        for old, new in (*more, *((day, start) for day in EXAMPLES)):
            program = program.replace(old, new)
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
        home = self.running.directory
        done = subprocess.run(
            [BASH, "-c", program],
            env={
                "PATH": path,
                "HOME": str(home),
                "MQDLQ_HOME": str(home),
                "MQDLQ_RULES_DIR": str(home / "rules"),
                "AIRFLOW_CONN_MQ_LONG": CONNECTION,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        return done.returncode, done.stdout, done.stderr

    @property
    def window(self) -> str:
        """Return the interval as the report has it."""
        end = self.start + EVERY
        return f"{self.start:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC"

    @property
    def counted(self) -> str:
        """Return what the command says before it starts."""
        times = f"{self.start:%Y-%m-%d %H:%M:%S} to {self.start + EVERY:%H:%M:%S} UTC"
        return f"1 interval, {times}; 1 with snapshots (1 snapshot, 2 messages)"

    @property
    def scheduled(self) -> str:
        """Return the id of the scheduled run that the interval has."""
        return f"scheduled__{self.start + EVERY:%Y-%m-%dT%H:%M:%S}+00:00"

    def backfills(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = self.running.get("/backfills?dag_id=mq_dlq_orders")[
            "backfills"
        ]
        return found

    def printed(self, outcome: str) -> str:
        """Return what the command prints that evaluates the interval."""
        number = len(self.backfills())
        return (
            f"DLQ.ORDERS @ QM1: {self.counted}\n"
            f"Backfill {number} of mq_dlq_orders runs, one interval after the other\n"
            f"{outcome}"
            f"Evaluated {self.counted}.\n"
        )


@pytest.fixture(scope="module", name="desk")
def _desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Wait until a scheduled run has taken a snapshot, and the interval's own run has ended."""
    directory, began = tmp_path_factory.mktemp("backfill"), now()
    world = World(directory, definitions=f"{DEFINITIONS}DEFINE QLOCAL(DLQ.ORDERS)\n")
    rules = directory / "rules"
    rules.mkdir()
    table = "INPUTQ(DLQ.ORDERS) WAIT(NO) RETRYINT(2)\nDESTQ(PAYMENTS) ACTION({})\n"
    (rules / "orders.rules").write_text(table.format("IGNORE"))
    (rules / "new.rules").write_text(table.format("RETRY"))
    (rules / "orders.yaml").write_text(
        "connection: mq_long\nrules: orders.rules\nrescan_interval: P1D\n"
        f"schedule: '{began.minute % 5}-59/5 * * * *'\n"
    )
    header = DeadLetterHeader(
        2053, "PAYMENTS", "QM1", 546, 819, "MQSTR", 6, "mover", "20261121", "11000000"
    )
    for body in (b"one", b"two"):
        world.put(
            "DLQ.ORDERS",
            header.encode(encoding=546, ccsid=819) + body,
            Format=b"MQDEAD  ",
            Encoding=546,
            CodedCharSetId=819,
        )
    metadata = postgresql.running_server().new_database_url()
    with airflow(
        directory,
        AIRFLOW_CONN_MQ_LONG=CONNECTION,
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=metadata,
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC=metadata,
        AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION="False",
    ) as running:
        running.wait_for_dag("orders")
        first: list[TakenSnapshot] = []

        def is_ready() -> bool:
            with running.ledger() as ledger:
                taken = ledger.snapshots.taken_between(
                    "QM1", "DLQ.ORDERS", now() - timedelta(days=1), now()
                )
            first[:] = taken[:1]
            states = {run["dag_run_id"]: run["state"] for run in running.runs("orders")}
            return bool(first) and states.get(_desk_of(first[0]).scheduled) in ENDED

        def _desk_of(taken: TakenSnapshot) -> Desk:
            minutes = timedelta(minutes=(taken.taken_at.minute - began.minute) % 5)
            start = taken.taken_at.replace(second=0, microsecond=0) - minutes
            return Desk(running, world, metadata, start, taken)

        running.wait(is_ready, 900)
        yield _desk_of(first[0])


def test_the_page_about_backfills_does_what_it_says(desk: Desk) -> None:
    """One test: each command finds what the one before it has left."""
    assert desk.call(DRY_RUN) == (
        0,
        (
            f"DLQ.ORDERS @ QM1: {desk.counted}\n"
            f"  {desk.window}: 1 snapshot, 2 messages\nNothing was started.\n"
        ),
        "",
    )
    code, listed, _ = desk.call(example_script(("backfill",)), ("demo", "orders"))
    assert (code, listed.splitlines()[-1]) == (0, "Nothing was started.")
    assert desk.backfills() == []

    code, printed, said = desk.call(EVALUATE)
    outcome = WOULD.format(window=desk.window, differ=0)
    assert (code, printed, said) == (0, desk.printed(outcome), "")

    code, printed, said = desk.call(OTHER_TABLE)
    outcome = WOULD.format(window=desk.window, differ=2)
    assert (code, printed, said) == (0, desk.printed(outcome), "")
    (run,) = [one for one in desk.running.runs("orders") if one["run_type"] == "backfill"]
    assert run["dag_run_id"] == desk.scheduled
    with desk.running.ledger() as ledger:
        recorded = ledger.runs.get(f"orders-{_in_ledger(desk.scheduled)}-backfill-2")
    assert recorded is not None
    assert recorded.started_by.endswith(SKIPPED.format(run=desk.scheduled))
    report = desk.running.directory / "reports" / recorded.run_id / "report.txt"
    assert SKIPPED.format(run=desk.scheduled) in " ".join(report.read_text().split())
    assert desk.world.depths("DLQ.ORDERS", "PAYMENTS") == (2, 0)

    code, printed, said = desk.call(AIRFLOWS)
    assert code == 0, said
    desk.running.wait(lambda: all(one["completed_at"] for one in desk.backfills()), 900)
    with desk.running.ledger() as ledger:
        look = ledger.runs.last_look(f"orders-{_in_ledger(desk.scheduled)}-backfill-3")
    assert look is not None
    assert look.why in WOULD.format(window=desk.window, differ=0)

    for delivered in ("2 delivered", "none of the messages is on the queue now"):
        code, printed, said = desk.call(APPLY)
        outcome = f"1 of 1: {desk.window}: {delivered}\n"
        assert (code, printed, said) == (0, desk.printed(outcome), "")
        assert desk.world.depths("DLQ.ORDERS", "PAYMENTS") == (0, 2)

    number = len(desk.backfills())
    assert desk.call(EVALUATE, *((day, "2026-11-01") for day in EXAMPLES)) == (
        1,
        "",
        (
            "mqdlq: there is no snapshot of DLQ.ORDERS @ QM1 in the 288 intervals of mq_dlq_orders"
            " from 2026-11-01 00:00:00 UTC to 2026-11-01 23:59:59 UTC that have ended (no run"
            " took one there): nothing to evaluate; `mqdlq snapshots list` shows when snapshots"
            " were taken [MQDLQ-446]\n"
        ),
    )
    assert len(desk.backfills()) == number


def _in_ledger(dag_run_id: str) -> str:
    return dag_run_id.removesuffix("+00:00").replace(":", "-")
