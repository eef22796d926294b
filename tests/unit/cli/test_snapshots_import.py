"""Test the snapshots that `mqdlq snapshots import` makes of dumps, and their uses."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner, Result

from embedded_mq.storage.dumping import dump
from mqdlq import lake
from mqdlq.cli import app
from mqdlq.directories import account
from mqdlq.errors import ExecutionError
from mqdlq.headers import DeadLetterHeader, MessageDescriptor, header_row
from mqdlq.lake.schema import HEADERS
from mqdlq.ledger.tables import TakenSnapshot
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.plan import steps_for
from mqdlq.rules import explain, parse
from mqdlq.stages.execute import make_pass
from tests.support.wire.pasted_messages import print_amqsbcg, print_dmpmqmsg
from tests.support.world import World

RULES = "REASON(MQRC_Q_FULL) DESTQ(PAY*) ACTION(RETRY) RETRY(2)\nACTION(FWD) FWDQ(PARKED)\n"
MD = MessageDescriptor(
    format="MQDEAD", coded_char_set_id=819, msg_id=b"\x01" * 24, expiry=600, put_appl_name="putter"
)
LETTER = DeadLetterHeader(
    2053, "PAYMENTS", "QM1", 546, 819, "MQSTR", 6, "mover", "20261121", "11000000"
)
BODY = LETTER.encode(encoding=546, ccsid=819) + b"secret"
MESSAGES = [(MD, BODY), (MessageDescriptor(format="MQSTR"), b"stray"), (MD, BODY)]
TAKEN = "2026-11-21T12:00:00Z"


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("MQDLQ_LAKE", str(tmp_path / "lake"))


def import_files(*arguments: str, text: str | None = None) -> Result:
    options = ["--queue-manager", "QM1", "--queue", "DLQ", "--taken-at", TAKEN]
    return CliRunner().invoke(app, ["snapshots", "import", *options, *arguments], input=text)


def imported(*arguments: str, text: str | None = None) -> str:
    """Import a dump; return the snapshot's directory."""
    result = import_files("--format", "json", *arguments, text=text)
    assert result.exit_code == 0, result.output
    return str(json.loads(result.stdout)["directory"])


@pytest.mark.parametrize("write", [print_amqsbcg, print_dmpmqmsg])
def test_an_import_has_the_rows_of_a_browse(write: Callable[..., str]) -> None:
    directory = imported("-", text=write(MESSAGES))

    at = datetime(2026, 11, 21, 12, tzinfo=UTC)
    unknown = dict.fromkeys(HEADERS.names)  # attributes of the queue, which a dump does not contain
    assert list(lake.snapshot_rows(directory)) == [
        unknown
        | header_row(number, md.encode(), body, len(body), browsed_at=at)
        | {"maybe_truncated": None}
        for number, (md, body) in enumerate(MESSAGES, start=1)
    ]


def test_the_manifest_of_an_import_names_its_files(tmp_path: Path) -> None:
    first, second = print_amqsbcg(MESSAGES), print_dmpmqmsg(MESSAGES[:1])
    (tmp_path / "a.txt").write_text(first)
    (tmp_path / "b.txt").write_text(second)

    manifest = lake.read_manifest(imported("a.txt", "b.txt"))

    digests = [hashlib.sha256(text.encode()).hexdigest() for text in (first, second)]
    assert manifest.imported_from == (
        f"amqsbcg in a.txt, SHA-256 {digests[0]}",
        f"dmpmqmsg in b.txt, SHA-256 {digests[1]}",
    )
    assert (manifest.messages, manifest.payload) == (4, "none")
    assert (manifest.queue_manager, manifest.queue) == ("QM1", "DLQ")
    assert (manifest.taken_at.isoformat(), manifest.taken_by) == (
        "2026-11-21T12:00:00+00:00",
        account(),
    )


def test_a_user_without_a_name_imports_by_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may run under any user id, so the user may have no name."""

    def nobody(number: int) -> NoReturn:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "a.txt").write_text(print_amqsbcg(MESSAGES))

    assert lake.read_manifest(imported("a.txt")).taken_by == str(os.getuid())


def test_an_import_is_shown_as_an_import(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(print_amqsbcg(MESSAGES))
    directory = imported("a.txt")

    shown = CliRunner().invoke(app, ["snapshots", "show", directory], env={"COLUMNS": "300"})
    as_json = CliRunner().invoke(app, ["snapshots", "show", directory, "--format", "json"])

    manifest = lake.read_manifest(directory)
    assert "Imported amqsbcg in a.txt, SHA-256" in " ".join(shown.stdout.split())
    assert json.loads(as_json.stdout)["imported_from"] == list(manifest.imported_from)


def test_an_import_writes_no_body_to_the_lake() -> None:
    directory = Path(imported("-", text=print_amqsbcg(MESSAGES)))

    files = [path.read_bytes() for path in directory.rglob("*") if path.is_file()]
    assert len(files) == 2
    assert not any(b"secret" in data or b"stray" in data for data in files)


def test_an_import_prints_that_it_is_for_rehearsals(tmp_path: Path) -> None:
    result = import_files("-", text=print_amqsbcg(MESSAGES))

    first, second = result.stdout.splitlines()
    assert first.startswith("snapshot 20261121T120000Z-")
    assert f": 3 messages in {tmp_path}/lake/snapshots/queue_manager=QM1/queue=DLQ/" in first
    assert second == "imported, for rehearsals only: a run takes its own snapshot"


def test_the_matcher_explains_the_messages_of_an_import() -> None:
    table = parse(RULES)
    rows = list(lake.snapshot_rows(imported("-", text=print_amqsbcg(MESSAGES))))

    assert [[step.action for step in steps_for(table, row)] for row in rows[:1]] == [
        ["RETRY", "FWD"]
    ]
    assert [rule.line for rule in explain(table, rows[0]).chain] == [1, 2]
    assert [row["class"] for row in rows] == ["dead_letter", "no_dlh", "dead_letter"]


def test_two_tables_are_compared_over_an_import(tmp_path: Path) -> None:
    (tmp_path / "old.rules").write_text("ACTION(RETRY)\n")
    (tmp_path / "new.rules").write_text("ACTION(FWD) FWDQ(PARKED)\n")
    directory = imported("-", text=print_amqsbcg(MESSAGES))

    result = CliRunner().invoke(
        app, ["rules", "diff", "old.rules", "new.rules", "--snapshot", directory]
    )

    assert result.exit_code == 1
    assert "2" in result.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.rules", RULES),
        ("a.yaml", "table:\n  rules:\n  - action: IGNORE\n"),
        ("latin.rules", "* caf\udce9\nACTION(IGNORE)\n"),
    ],
)
def test_an_import_freezes_rules_as_a_run_does(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))

    manifest = lake.read_manifest(imported("--rules", name, "-", text=print_amqsbcg(MESSAGES)))

    assert parse(manifest.rules_text).digest == manifest.rules_digest
    assert (manifest.rules_text == text) == (name == "a.rules")


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        ("444c4820", [], "<stdin>:1: this message has no MQMD; a snapshot needs it [MQDLQ-906]\n"),
        (print_amqsbcg(MESSAGES).replace("Encoding : 546", "Encoding : x"), [],
         "<stdin>:14: Encoding must be a number, found 'x' [MQDLQ-906]\n"),
        (print_amqsbcg(MESSAGES), ["--queue", "Q" * 49],
         (f"'{'Q' * 49}' is not a name of a queue or queue manager; expected 1 to 48"
          " characters [MQDLQ-914]\n")),
        (print_amqsbcg([(MD, BODY)]).replace("putter", "p\udcfftter"), [], None),
    ],
)  # fmt: skip
def test_a_failed_import_leaves_no_files(
    text: str, options: list[str], error: str | None, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_bytes(text.encode("utf-8", "surrogateescape"))

    result = CliRunner().invoke(
        app,
        ["snapshots", "import", "--queue-manager", "QM1", "--queue", "DLQ", *options, "in.txt"],
    )

    if error is None:  # an invalid byte is kept, as in a browse
        (row,) = lake.snapshot_rows(str(next((tmp_path / "lake").rglob("_MANIFEST.json")).parent))
        assert row["put_appl_name"] == "p\ufffdtter"
        return
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == error.replace("<stdin>", "in.txt")
    assert not (tmp_path / "lake").exists()


def test_an_import_rejects_an_invalid_rules_table(tmp_path: Path) -> None:
    (tmp_path / "bad.rules").write_text("ACTION(RETRIE)\n")

    result = import_files("--rules", "bad.rules", "-", text=print_amqsbcg(MESSAGES))

    assert result.exit_code == 1
    assert result.stderr.startswith("bad.rules:1:8: ")


# -- execution of an import


def dumped(world: World) -> str:
    """Return the output of amqsbcg for the dead-letter queue of `world`."""
    with world.connect() as queue_manager:
        constants = queue_manager.client.CMQC
        queue = queue_manager.open("DLQ", constants.MQOO_BROWSE)
        cursor = BrowseCursor(queue_manager, queue, "DLQ", 1000)
        found = [
            (MessageDescriptor.decode(one.descriptor), one.prefix) for one in cursor.messages()
        ]
        queue_manager.close(queue)
    return print_amqsbcg(found)


def bound_to_a_run(world: World, text: str) -> tuple[Any, str]:
    """Pretend that a run took the imported snapshot; return the run and its plan's id."""
    run = world.start("ACTION(FWD) FWDQ(PARKED)\n")
    (world.directory / "rules.txt").write_text(run.rules_text)
    manifest = lake.read_manifest(imported("--rules", "rules.txt", "-", text=text))
    directory = lake.snapshot_directory(world.lake_root, "QM1", "DLQ", manifest.snapshot_id)
    world.ledger.snapshots.record(
        TakenSnapshot(
            run.run_id, manifest.snapshot_id, directory, manifest.messages, manifest.taken_at
        )
    )
    return run, world.evaluate(run)


def test_a_faithful_dump_has_the_keys_of_a_browse(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.dead_letter(b"one")
    world.dead_letter(b"two", ReplyToQ=b"REPLIES", GroupId=b"g" * 24, MsgFlags=8)
    run = world.start(RULES)
    manifest = world.snapshot(run)

    assert lake.read_manifest(imported("-", text=dumped(world))).digest == manifest.digest


def test_a_dump_of_the_embedded_queue_manager_is_imported_with_the_same_keys(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.dead_letter(b"one", ReplyToQ=b"REPLIES", UserIdentifier=b"\xfc\xff")
    dumped_lines = "".join(dump("QM1", "DLQ"))
    browsed = CliRunner().invoke(app, ["qm", "browse", "QM1", "DLQ", "--format", "json"]).stdout
    text = print_amqsbcg([(MD, BODY)])

    keys = [
        [row["message_key"] for row in lake.snapshot_rows(imported("-", text=each))]
        for each in (dumped_lines, browsed, text)
    ]
    assert keys[0] == keys[1] != keys[2]
    assert len(keys[0]) == 1


def test_a_run_rejects_the_plan_of_an_import(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.dead_letter(b"one")
    _, plan_id = bound_to_a_run(world, dumped(world))
    other = world.plan("ACTION(FWD) FWDQ(PARKED)\n").run

    with pytest.raises(ExecutionError, match="was not made from this run's snapshot"):
        world.accept(other, plan_id)


def test_a_plan_of_an_import_touches_only_messages_whose_keys_are_on_the_queue(
    tmp_path: Path,
) -> None:
    """In the dump, a name in the second message is masked."""
    world = World(tmp_path)
    world.dead_letter(b"one")
    world.dead_letter(b"two", ReplyToQ=b"REPLIES")
    run, plan_id = bound_to_a_run(world, dumped(world).replace("REPLIES", "*******"))
    world.accept(run, plan_id)

    make_pass(world.execution(run))

    assert [body[-3:] for body in world.bodies("PARKED")] == [b"one"]
    assert [body[-3:] for body in world.bodies("DLQ")] == [b"two"]
