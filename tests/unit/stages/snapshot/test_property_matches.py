"""Test that a snapshot has the conditions on properties that messages meet, and no values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqdlq import lake
from mqdlq.handlers import check
from mqdlq.headers import MessageDescriptor, RulesHeader2
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.rules import parse
from mqdlq.stages.snapshot.preview import preview_queue
from mqdlq.stages.snapshot.properties import PropertyMatches
from tests.support.world import World
from tests.unit.stages.execute.messages.with_properties import put_with_properties

RULES = """\
table:
  control: {wait: no}
  rules:
    - extensions: {property: 'orderType = REFUND*'}
      action: FWD
      fwdq: PARKED
    - extensions: {property: ['usr.amount < 100', 'own.state = OPEN']}
      action: IGNORE
"""
REFUND, AMOUNT, OPEN = "usr.orderType = REFUND*", "usr.amount < 100", "own.state = OPEN"
MET, UNMET = "properties_met", "properties_unmet"
TABLE = parse(
    "".join(f"PROPERTY('{one}') ACTION(IGNORE)\n" for one in (REFUND, AMOUNT)), frozen=True
)
MATCHES = PropertyMatches(TABLE)


def header(*folders: str) -> bytes:
    padded = tuple(folder + " " * (-len(folder) % 4) for folder in folders)
    return RulesHeader2(546, 1208, "MQSTR", name_value_ccsid=1208, folders=padded).encode(
        encoding=546, ccsid=819
    )


def browsed(body: bytes, length: int | None = None, **properties: str | None) -> BrowsedMessage:
    md = MessageDescriptor(encoding=546, coded_char_set_id=819, format="MQHRF2").encode()
    named = {f"usr.{name}": value for name, value in properties.items()}
    return BrowsedMessage(md, body[:length], len(body), properties=named)


@pytest.mark.parametrize("client", ["ibmmq", "pymqi"])
def test_a_snapshot_has_conditions_in_place_of_values(tmp_path: Path, client: str) -> None:
    world = World(tmp_path, client=client)
    inner = (546, 819, "MQHRF2")
    with world.ledger:
        put_with_properties(
            world,
            (b"orderType", "REFUND-SECRET", "MQTYPE_STRING", -1),
            (b"amount", 150, "MQTYPE_INT32", 4),
        )
        in_body = "<usr><orderType>SECRET</orderType><amount dt='r8'>99.5</amount></usr>"
        world.dead_letter(header("<mcd><Msd>x</Msd></mcd>", in_body) + b"body", inner=inner)
        no_properties = "<own><state>OPEN</state></own>"
        world.dead_letter(header(no_properties) + b"body", inner=inner)
        too_long = f"<usr><a>{'x' * 80_000}</a><orderType>REFUND</orderType></usr>"
        world.dead_letter(header(too_long) + b"body", inner=inner)
        execution = world.plan(RULES)
        rows = snapshot(world, execution.run)

        assert [(row[MET], row[UNMET]) for row in rows] == [
            ([REFUND], [OPEN, AMOUNT]),
            ([AMOUNT], [OPEN, REFUND]),
            ([OPEN], [AMOUNT, REFUND]),
            ([REFUND], [OPEN, AMOUNT]),
        ]
        assert "SECRET" not in str(rows)
        table = check(RULES, "table.yaml").table
        assert table is not None
        with world.connect() as queue_manager:
            asked = preview_queue(queue_manager, table, "DLQ", clock=world.clock)
        assert [(step.rule, number) for step, number in asked.planned] == [
            (1, 2),
            (2, 1),
            (3, 1),
        ]
        assert world.handle(RULES) == {
            1: "forwarded",
            2: "left_by_rule",
            3: "left_by_rule",
            4: "forwarded",
        }
        world.snapshot(run := world.start("ACTION(IGNORE)"))
        assert {(row[MET], row[UNMET]) for row in snapshot(world, run)} == {(None, None)}


def snapshot(world: World, run: Any) -> list[dict[str, Any]]:
    return list(lake.snapshot_rows(world.recorded_snapshot(run.run_id).location))


@pytest.mark.parametrize(
    ("message", "met", "unmet"),
    [
        (browsed(b"", orderType="REFUND 1", amount="-1"), [AMOUNT, REFUND], []),
        (browsed(b"", orderType="refund", amount="much"), [], [AMOUNT, REFUND]),
        (browsed(header("<usr/>"), orderType=None), [], [AMOUNT]),
        (browsed(header("<usr><amount>1E2</amount></usr>")), [], [AMOUNT, REFUND]),
        (browsed(header("<usr><amount>1e1 </amount></usr>")), [AMOUNT], [REFUND]),
        (browsed(header("<usr><g><amount>1</amount></g></usr>")), [], [AMOUNT, REFUND]),
        (browsed(header("<usr><amount>1</amount></usr>"), amount="200"), [], [AMOUNT, REFUND]),
        (
            browsed(header("<usr><a/></usr>", "<usr><amount dt='i4'>1</amount></usr>")),
            [AMOUNT],
            [REFUND],
        ),
        (browsed(header("<usr><amount xsi:nil='true'/></usr>")), [], [REFUND]),
        (browsed(header("<usr><amount>1</usr>")), [], []),
        (browsed(header("<usr><!-- --><amount>1</amount></usr>")), [], []),
        (browsed(header("<usr><amount>1</amount></usr>" + " " * 400), length=300), [], []),
        (browsed(b"RFH "), [], []),
        (browsed(header(f"<usr><amount>{'1'.rjust(4096)}</amount></usr>")), [AMOUNT], [REFUND]),
        (browsed(header(f"<usr><amount>{'1'.rjust(4097)}</amount></usr>")), [], [REFUND]),
    ],
)
def test_an_unreadable_property_neither_meets_nor_fails_a_condition(
    message: BrowsedMessage, met: list[str], unmet: list[str]
) -> None:
    assert MATCHES.compare(message) == {MET: met, UNMET: unmet}


def test_a_property_that_a_paste_does_not_show_is_unknown() -> None:
    shown = browsed(header("<usr><amount>1</amount></usr>"))

    assert MATCHES.compare(shown, is_complete=False) == {MET: [AMOUNT], UNMET: []}


def test_a_value_is_in_no_representation_of_a_message() -> None:
    assert repr(browsed(b"", orderType="SECRET")) == "<Browsed 0 bytes>"
