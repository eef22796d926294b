"""Run the examples in the help of commands and on pages, in a home filled by the demo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq import directories
from mqdlq.headers import MessageDescriptor, message_key
from mqdlq.local import demo
from mqdlq.rules.formatting import format_table
from mqdlq.stages.execute import make_pass, settle
from tests.support.declared_commands import THROUGH_AIRFLOW, commands_with_help, example_script
from tests.support.docs.code_blocks import calls, code_blocks, inputs
from tests.support.run_records import run_record
from tests.support.wire.pasted_messages import print_amqsbcg
from tests.support.world import World

pytestmark = pytest.mark.slow

BEFORE, AFTER = "20261121T120000Z-1a2b3c4d", "20261121T130000Z-5e6f7a8b"
KEY = "3fa2b1c4"
BASH = shutil.which("bash") or "bash"
BACKOUT = "INPUTQ(ORDERS.BACKOUT)\nFORMAT(MQSTR) ACTION(FWD) FWDQ(ORDERS.PARKED)\n"
BACKOUT_QUEUE = """
DEFINE QLOCAL(ORDERS.BACKOUT)
DEFINE QLOCAL(PAYMENTS.BACKOUT)
ALTER QLOCAL(PAYMENTS.IN) BOTHRESH(3) BOQNAME(PAYMENTS.BACKOUT)
ALTER QLOCAL(PAYMENTS.INTL) BOTHRESH(3) BOQNAME(PAYMENTS.BACKOUT)
"""
DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
HERE = sorted(commands_with_help().keys() - THROUGH_AIRFLOW)
RUN_PAGES = (
    "docs/how-to/decode-messages.md",
    "docs/how-to/test-a-table-offline.md",
    "docs/how-to/write-rules.md",
    "docs/tutorial/first-queue.md",
)
"""The pages whose commands run one after the other, in order."""


@dataclass(frozen=True)
class Prepared:
    """A directory for examples, and the real names for the ids that they show."""

    directory: Path
    names: dict[str, str]


@pytest.fixture(scope="module", name="prepared")
def _prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """Fill QM1 as the demo does, handle it once between two dry runs, and fill it again."""
    directory = tmp_path_factory.mktemp("examples")
    for place in ("include", "docs/tutorial"):
        shutil.copytree(directories.PROJECT / place, directory / place)
    rules = (directory / "include/rules/demo.rules").read_text(encoding="utf-8")
    for name in ("old.rules", "new.rules"):
        (directory / name).write_text(rules, encoding="utf-8")
    (directory / "include/rules/orders.rules").write_text(format_table(rules), encoding="utf-8")
    (directory / "include/rules/backout.rules").write_text(BACKOUT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQDLQ_HOME", str(directory / "var"))
        (directory / "var").mkdir()
        mqsc = (directory / "include/mqsc/QM1.mqsc").read_text(encoding="utf-8")
        world = World(directory / "var", definitions=mqsc + BACKOUT_QUEUE)
        world.clock.now = datetime.now(UTC) - timedelta(hours=1)  # noqa: TID251 (`--since 30d`)
        world.put("ORDERS.BACKOUT", b"an order")
        with world.ledger, world.connect() as queue_manager:
            demo.fill(queue_manager, world.clock)
            messages = [
                (MessageDescriptor.decode(md.pack()), body) for md, body in world.messages(DLQ)
            ]
            (directory / "dump.txt").write_text(print_amqsbcg(messages), encoding="utf-8")
            descriptor, body = messages[0]
            (directory / "message.hex").write_text(body.hex(), encoding="utf-8")
            key = message_key(descriptor.encode(), len(body), body[:172]).hex()
            before = dry_run(world, rules, payload="full")
            handle(world, rules)
            after = dry_run(world, rules, rescan=True)
            demo.fill(queue_manager, world.clock)
            # `mqdlq stop` needs a run in progress; it began first, so that it is not the latest.
            began = world.clock() - timedelta(days=1)
            in_progress = run_record(started_at=began, max_run_time_s=172_800)
            world.ledger.runs.record(in_progress)
    yield Prepared(directory, {BEFORE: before, AFTER: after, KEY: key[:8]})
    shutil.rmtree(directory)


def dry_run(world: World, rules: str, **options: Any) -> str:
    """Take a snapshot a minute after the last step; return its id."""
    world.clock.sleep(60)
    run = world.start(rules, dry_run=True)
    return str(world.snapshot(run, **options).snapshot_id)


def handle(world: World, rules: str) -> None:
    world.clock.sleep(60)
    execution = world.plan(rules)
    result = make_pass(execution)
    while result.next_pass_at is not None:
        world.clock.now = result.next_pass_at
        result = make_pass(execution)
    settle(execution)


@pytest.mark.parametrize("path", HERE, ids=" ".join)
def test_the_examples_of_a_command_run(
    path: tuple[str, ...], prepared: Prepared, tmp_path: Path
) -> None:
    done = run(example_script(path), prepared, tmp_path)

    assert done.returncode == 0, f"{example_script(path)}\n{done.stdout}\n{done.stderr}"
    assert done.stderr == ""


@pytest.mark.parametrize("page", RUN_PAGES)
def test_the_commands_of_a_page_run(page: str, prepared: Prepared, tmp_path: Path) -> None:
    program = "\n".join(
        command
        for block in code_blocks(directories.PROJECT / page)
        if block.language == "console"
        for command in inputs(block)
        if all(map(runs_here, calls(command)))
    )
    assert program

    # `head` ends a pipe early.
    done = run(f"set +o pipefail\n{program}", prepared, tmp_path)

    assert done.returncode == 0, f"{program}\n{done.stdout}\n{done.stderr}"


def runs_here(words: list[str]) -> bool:
    """Return whether a program is ours, and needs no Airflow."""
    starts_airflow = any(words[1 : len(path) + 1] == list(path) for path in THROUGH_AIRFLOW)
    is_ours = words[0] in {"cat", "echo", "export", "head", "mqdlq"} or words[:2] == [
        "python",
        "-m",
    ]
    return is_ours and not starts_airflow


def run(program: str, prepared: Prepared, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell's program in a copy of the prepared directory."""
    directory = tmp_path / "here"
    shutil.copytree(prepared.directory, directory)
    for shown, real in prepared.names.items():
        program = program.replace(shown, real)
    scripts = sysconfig.get_path("scripts")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    return subprocess.run(
        [BASH, "-eu", "-o", "pipefail", "-c", program],
        cwd=directory,
        env=kept
        | {
            "MQDLQ_HOME": str(directory / "var"),
            "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
