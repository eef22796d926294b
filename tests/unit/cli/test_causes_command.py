"""Test that `mqdlq causes` counts the messages of dumps by why they are dead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqdlq.cli import app
from mqdlq.headers import DeadLetterHeader, MessageDescriptor
from tests.support.wire.pasted_messages import print_amqsbcg, print_dmpmqmsg

MD = MessageDescriptor(format="MQDEAD", coded_char_set_id=819)


def letter(reason: int, queue: str, time: str = "11000000") -> tuple[MessageDescriptor, bytes]:
    inner = (546, 819, "MQSTR")
    header = DeadLetterHeader(reason, queue, "QM1", *inner, 6, "mover", "20261121", time)
    return MD, header.encode(encoding=546, ccsid=819) + b"secret"


MESSAGES = [
    letter(2053, "ORDERS"),
    letter(2053, "ORDERS", "11300000"),
    letter(2085, "AMQ.5F2A6C7E21034B02"),
    letter(2085, "AMQ.5F2A6C7E21034B03"),
    letter(2085, "AMQ.5F2A6C7E21034B04"),
    (MessageDescriptor(format="MQSTR"), b"secret"),
]
TEXT = """\
6 messages
      3  MQRC_UNKNOWN_OBJECT_NAME (2085) for AMQ.* @ QM1 (3 queues)
         no queue of that name; needs an administrator; define the queue, or correct the name that\
 is used
         2026-11-21 11:00:00 UTC
      2  MQRC_Q_FULL (2053) for ORDERS @ QM1
         the queue is full; passes by itself; check the application that reads it, or raise its\
 MAXDEPTH
         2026-11-21 11:00:00 to 11:30:00 UTC
      1  no MQDLH
         needs the application's owner; find the program that put it here without MQDLH
"""


def run(*arguments: str | Path, text: str = "") -> Result:
    return CliRunner().invoke(app, ["causes", *map(str, arguments)], input=text)


@pytest.mark.parametrize("write", [print_amqsbcg, print_dmpmqmsg])
def test_the_causes_of_a_dump_come_with_what_helps(write: object) -> None:
    done = run("-", text=write(MESSAGES))  # type: ignore[operator]

    assert done.stdout == TEXT


def test_the_messages_of_several_dumps_are_counted_together(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(print_amqsbcg(MESSAGES))

    shown = json.loads(run(tmp_path / "a", tmp_path / "b", "--format", "json").stdout)

    assert [one["messages"] for one in shown["causes"]] == [6, 4, 2]
    assert [one["kind"] for one in shown["causes"]] == [
        "administrative",
        "transient",
        "application",
    ]


def test_hexadecimal_digits_without_an_mqmd_have_a_cause_too() -> None:
    done = run("-", text=letter(2053, "ORDERS")[1].hex())

    assert done.stdout.startswith("1 message\n      1  MQRC_Q_FULL (2053) for ORDERS @ QM1\n")


def test_what_is_no_dump_is_refused_with_its_line() -> None:
    done = run("-", text="not a dump")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("<stdin>:1: ")
