"""Each declared key of a report's document differs between runs; a key that nothing sets fails."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from mqdlq.ledger.tables import Look, Run
from mqdlq.reading.report import groups, json_report
from mqdlq.reading.report.building import Report, read_report
from mqdlq.stages.diagnosing import diagnose_run
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.snapshot.taking import record_causes
from mqdlq.stages.stopping import ask_to_stop
from tests.support.docs.schemas import RECORDS
from tests.support.settled_backlog import put_backlog, run_to_end
from tests.support.world import World
from tests.unit.controls.evidence.test_stream_check import AFTER, BEFORE, handle
from tests.unit.controls.evidence.test_stream_check import RULES as STREAM_RULES
from tests.unit.controls.loops.returning import send_back
from tests.unit.controls.repair.approved_repairs import plan_repair
from tests.unit.reading.report.conftest import WRITTEN_AT
from tests.unit.reading.report.ended_runs import (
    ALL_WELL,
    START,
    EndedRun,
    Try,
    delivered,
    exhausted,
    failed_at,
    failures,
    ledger_in,
    messages_of_every_outcome,
    unmatched,
)
from tests.unit.reading.test_alerts import ended
from tests.unit.stages.execute.test_late_markers import lost

pytestmark = pytest.mark.slow

Seen = Mapping[tuple[str, str], set[str]]
TRIES: Final = (Try(20.0, 2053), Try(26.0, 2030, rule=1), Try(29.0))
GENERATED: Final = [exhausted(dest_q_name=f"AMQ.{number:016X}") for number in range(3)]

RUNS: Final[Mapping[str, tuple[EndedRun, Mapping[str, str], str]]] = {
    "every outcome": (EndedRun(messages_of_every_outcome(), arrived=2), ALL_WELL, ""),
    "all well": (EndedRun([delivered(), delivered(tries=TRIES)], run_id="b"), ALL_WELL, ""),
    "a dry run": (EndedRun([delivered()], run_id="c", dry_run=True, why="INC-1"), ALL_WELL, ""),
    "not accounted for": (
        EndedRun([*GENERATED, unmatched(outcome=None)], run_id="d", returned=1, queue="OTHER.DLQ"),
        failed_at("execute"),
        "no such queue [MQDLQ-100]",
    ),
    "only failed": (
        EndedRun(
            [
                exhausted(outcome=None),
                exhausted(outcome=None, tries=TRIES[:1]),
                delivered(outcome=None, tries=TRIES[:1], target_q="A", target_q_mgr="QM2"),
            ],
            run_id="e",
        ),
        failed_at("retry"),
        "",
    ),
    "no snapshot": (
        EndedRun(snapshot=False, run_id="f", look=Look(0, False, "", START)),
        ALL_WELL,
        "",
    ),
    "no plan": (
        EndedRun([unmatched()], run_id="g", plan=False, wait_s=5),
        failed_at("evaluate"),
        "",
    ),
}


def diagnosed(world: World) -> Run:
    world.dead_letter(dest_q="CLOSED", reason=2051)
    run = ended(world)
    record_causes(run, ledger=world.ledger)
    diagnose_run(run, world.settings, world.ledger, world.clock)
    return run


def diagnosed_later(world: World) -> Run:
    world.clock.sleep(60)
    world.mqsc("ALTER QLOCAL(CLOSED) MAXDEPTH(0)")
    world.dead_letter(dest_q="ORDERS")
    world.mqsc("ALTER QLOCAL(ORDERS) MAXDEPTH(0)")
    return diagnosed(world)


def returned(world: World) -> Run:
    world.dead_letter()
    ended(world, loops={"limit": 3})
    send_back(world)
    return ended(world, loops={"limit": 3})


def stopped(world: World) -> Run:
    world.dead_letter(dest_q="CLOSED", Expiry=432_000)
    rules = "WAIT(NO)\nACTION(RETRY) RETRY(9)\n"
    return ended(world, rules, breaker={"failures": 1, "pause": 60})


def repaired(world: World) -> Run:
    world.dead_letter(b"body", inner=(546, 37, "ORDERS"))
    world.dead_letter(b"right", inner=(546, 1208, "MQSTR"))
    execution = plan_repair(world, {"format": "MQSTR", "coded_char_set_id": 1208})
    make_pass(execution)
    settle(execution)
    return execution.run


def not_known(world: World) -> Run:
    world.dead_letter(b"body", inner=(546, 37, "ORDERS"))
    execution = plan_repair(world, {"coded_char_set_id": 1208})
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    world.clear("MQDLQ.STATE")
    make_pass(execution)
    settle(execution)
    return execution.run


def found_later(world: World) -> Run:
    world.dead_letter()
    first, show = lost(world)
    show()
    world.dead_letter(b"another")
    world.handle("ACTION(RETRY)")
    return first.run


def named(world: World) -> Run:
    world.dead_letter(b"1")
    world.dead_letter(b"2")
    first = world.plan("ACTION(IGNORE)", dry_run=True).run
    key = world.ledger.messages.of_run(first.run_id)[0].message_key.hex()
    execution = world.plan("ACTION(RETRY)", message_keys=(key,))
    make_pass(execution)
    settle(execution)
    return execution.run


def conditional(world: World) -> Run:
    world.dead_letter(b"1")
    world.dead_letter(b"2")
    first = world.plan("ACTION(IGNORE)", dry_run=True).run
    as_of = world.recorded_snapshot(first.run_id).snapshot_id
    world.lose_first()
    execution = world.plan("ACTION(RETRY)", where="reason=2053", as_of=as_of)
    make_pass(execution)
    settle(execution)
    return execution.run


def asked_to_stop(world: World, who: str = "alice", why: str = "ticket 4711") -> Run:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    ask_to_stop(execution.run, world.ledger, who, why, world.clock())
    make_pass(execution)
    settle(execution)
    return execution.run


def asked_later(world: World) -> Run:
    world.clock.sleep(60)
    return asked_to_stop(world, "bob", "")


def settled(world: World) -> Run:
    put_backlog(world)
    run_to_end(world)
    world.dead_letter(b"new", dest_q="ORDERS")
    run, _ = run_to_end(world)
    return run


def expired(world: World) -> Run:
    world.dead_letter(dest_q="NOWHERE", Expiry=6_000)
    ended(world)
    world.clear("DLQ")
    world.dead_letter(dest_q="CLOSED")
    return ended(world, "WAIT(NO)\nACTION(RETRY) RETRY(9)\n")


def unreadable(world: World) -> Run:
    world.dead_letter()
    run = ended(world)
    Path(world.recorded_snapshot(run.run_id).location, "_MANIFEST.json").unlink()
    return run


def quarantined(world: World) -> Run:
    loops = {"limit": 1, "then": {"forward": "PARKED"}}
    world.dead_letter()
    ended(world, loops=loops)
    send_back(world)
    return ended(world, loops=loops)


def without_stream(world: World) -> Run:
    world.clock.now = BEFORE
    handle(world)
    world.clock.now = AFTER
    world.dead_letter()
    return handle(world)


def inexact(world: World) -> Run:
    check_the_stream(world)
    world.dead_letter(b"left", dest_q="ORDERS")
    earlier = world.start(STREAM_RULES)
    world.snapshot(earlier)
    for file in Path(world.recorded_snapshot(earlier.run_id).location).rglob("*.parquet"):
        file.write_bytes(b"PAR1 damaged")
    world.lose_first()
    world.clock.now += timedelta(hours=1)
    world.dead_letter(b"handled")
    return handle(world)


def check_the_stream(world: World) -> None:
    world.mqsc("DEFINE QLOCAL(STREAM)\nALTER QLOCAL(DLQ) STREAMQ(STREAM)")
    world.clock.now = BEFORE
    handle(world)
    world.clock.now = AFTER


def streamed(world: World) -> Run:
    check_the_stream(world)
    world.dead_letter(b"taken")
    world.lose_first()
    return handle(world)


WORLDS: Final[Mapping[str, Callable[[World], Run]]] = {
    story.__name__: story
    for story in (
        *(returned, stopped, repaired, not_known, found_later, named, conditional),
        *(asked_to_stop, asked_later, settled),
        *(expired, unreadable, quarantined, without_stream, streamed, inexact),
        *(diagnosed, diagnosed_later),
    )
}


def reports(directory: pytest.TempPathFactory) -> Iterator[Report]:
    for name, (run, stages, error) in RUNS.items():
        root = directory.mktemp("ended")
        with ledger_in(root) as ledger:
            run_id = run.record(ledger, str(root / "lake"))
            yield read_report(
                run_id,
                ledger=ledger,
                lake_root=str(root / "lake"),
                stages=stages,
                failures=failures(stages, error),
                now=WRITTEN_AT + timedelta(seconds=len(name)),
            )
    for story in WORLDS.values():
        world = World(directory.mktemp("world"))
        run_id = story(world).run_id
        places: dict[str, Any] = {"ledger": world.ledger, "lake_root": world.lake_root}
        yield read_report(run_id, stages={"execute": "success"}, now=world.clock(), **places)


@pytest.fixture(name="seen", scope="module")
def _seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Return the values that each key has in the documents of all stories."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQDLQ_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setattr(groups, "MOST_OF_A_GROUP", 2)
        patch.setattr(groups, "MOST_TROUBLES", 4)
        for report in reports(tmp_path_factory):
            note(report, found)
            run = json_report.shown(report)["run"]
            note_each("Run", run, found)
    return found


def note(value: Any, found: dict[tuple[str, str], set[str]]) -> None:
    if is_dataclass(value):
        note_each(type(value).__name__, json_report.shown(value), found)
    elif isinstance(value, list | tuple):
        for one in value:
            note(one, found)


def note_each(
    record: str, values: Mapping[str, Any], found: dict[tuple[str, str], set[str]]
) -> None:
    for key, value in values.items():
        found[record, key].add(type(value).__name__ if is_dataclass(value) else repr(value))
        note(value, found)


CONSTANT: Final = {
    *("Run.run_type", "Run.queue_manager", "Account.last_browse", "FailedRule.action"),
    *("MessageGroup.first", "TriedGroup.first", "Tried.action", "RepairRow.messages"),
    *("LearnedCount.of_run", "LearnedCount.run_id", "LearnedCount.outcome"),
    *("LearnedCount.target_q", "LearnedCount.target_q_mgr", "LearnedCount.messages"),
    *("RampRow.cause_id", "RampRow.cause", "RampRow.target_q", "RampRow.target_q_mgr"),
    *("RampRow.phase", "RampRow.is_open", "RampRow.why", "RampRow.why_code", "RampRow.until"),
    *("ReturnRow.cause_id", "ReturnRow.cause", "ReturnRow.messages", "ReturnRow.round_trips"),
    *("ReturnRow.why", "ReturnRow.limit", "EvidenceCheck.kind", "EvidenceCheck.source"),
    *("EvidenceCheck.since", "EvidenceCheck.at"),
}
"""Keys that have one value in all these runs, which few of them give; a new key is not here."""

KEYS: Final = [
    *((record, key) for record in RECORDS for key in json_report.keys_of(record)),
    *((Run, key) for key in ("ended_at", "duration_s")),
]


@pytest.mark.parametrize(
    ("record", "key"), KEYS, ids=[f"{record.__name__}.{key}" for record, key in KEYS]
)
def test_runs_differ_in_each_key_of_the_document(record: type, key: str, seen: Seen) -> None:
    values = seen.get((record.__name__, key), set())
    default = next((one.default for one in fields(record) if one.name == key), MISSING)
    empty: tuple[object, ...] = (None, "", 0, 0.0, False, (), [], {})
    nothing = {repr(one) for one in (empty if default is MISSING else (default,))}

    assert values - nothing, f"no run gives {record.__name__}.{key} a value: tell one in RUNS"
    if f"{record.__name__}.{key}" not in CONSTANT:
        assert len(values) > 1, f"{record.__name__}.{key} is {values} in each run of RUNS"
