"""In random worlds a repair changes no byte of a body, and each message is in exactly one place.

MQDLQ_WORLDS says how many worlds are tried.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import embedded_mq
from mqdlq.errors import QueueManagerError
from mqdlq.headers import DLH_LENGTH, RulesHeader2
from mqdlq.lake.archive import read_copies
from mqdlq.model import Outcome
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World
from tests.unit.controls.repair.approved_repairs import plan_repair

pytestmark = pytest.mark.slow

WORLDS = int(os.environ.get("MQDLQ_WORLDS", "15"))
RFH2 = RulesHeader2(546, 1208, "MQSTR", 0, 1208, ()).encode(encoding=546, ccsid=819)
FAULTS = (
    "",
    "MQPUT1[MQDLQ.STATE]:1:2195:before",
    "MQPUT1[PAYMENTS]:2:2009:after",
    "MQPUT1[PAYMENTS]:1:2053:before",
    "MQCMIT:1:2009:before",
    "MQCMIT:1:2009:after",
    "MQCMIT:1:2003:before",
)


@dataclass(frozen=True)
class Letter:
    """A message: its first bytes, how its MQDLH describes it, and its destination."""

    head: bytes
    format: str
    ccsid: int
    dest_q: str


LETTERS = st.builds(
    Letter,
    head=st.sampled_from([b"", RFH2, b"RFH ", b"\x00\xff"]) | st.binary(max_size=40),
    format=st.sampled_from(["", "MQSTR", "MQHRF2", "ORDERS"]),
    ccsid=st.sampled_from([37, 819, 1208]),
    dest_q=st.sampled_from(["PAYMENTS", "PAYMENTS", "CLOSED"]),
)
REPAIRS = st.fixed_dictionaries(
    {},
    optional={
        "format": st.sampled_from(["", "MQSTR", "MQHRF2", "MQCICS"]),
        "coded_char_set_id": st.sampled_from([37, 1208]),
    },
)


@pytest.fixture(name="world", scope="module")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("world")
        patch.setenv("MQDLQ_HOME", str(directory))
        world = World(directory)
        with world.ledger:
            yield world
    embedded_mq.faults.set("")


@settings(
    max_examples=WORLDS,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    letters=st.lists(LETTERS, min_size=1, max_size=4),
    repair=REPAIRS,
    fault=st.sampled_from(FAULTS),
    client=st.sampled_from(["pymqi", "ibmmq"]),
)
def test_a_repair_keeps_every_body_and_every_message(
    world: World, letters: list[Letter], repair: dict[str, Any], fault: str, client: str
) -> None:
    world.settings = ConnectionSettings("QM1", transport="embedded", client=client)
    world.clear("DLQ", "PAYMENTS")
    world.clock.sleep(3600)
    originals = {}
    for number, letter in enumerate(letters):
        body = letter.head + b"%d" % number
        world.dead_letter(
            body,
            dest_q=letter.dest_q,
            inner=(546, letter.ccsid, letter.format),
            MsgId=b"%24d" % number,
        )
        originals[number] = body
    action = "ACTION(RETRY)" if repair else "ACTION(FWD) FWDQ(PAYMENTS) HEADER(NO)"
    execution = plan_repair(world, repair, action)

    embedded_mq.faults.set(fault)
    try:
        make_pass(execution)
    except QueueManagerError:
        embedded_mq.faults.set("")
        make_pass(execution)
    embedded_mq.faults.set("")
    outcomes = settle(execution)

    run_id = execution.run.run_id
    delivered = [(int(md.MsgId), md, seen) for md, seen in seen_by_applications(world)]
    stayed = [(int(md.MsgId), seen) for md, seen in world.messages("DLQ")]
    assert Counter([n for n, *_ in delivered] + [n for n, _ in stayed]) == Counter(list(originals))
    assert {n: seen for n, _, seen in delivered} == {n: originals[n] for n, *_ in delivered}
    assert {n: seen[DLH_LENGTH:] for n, seen in stayed} == {n: originals[n] for n, _ in stayed}
    assert outcomes[Outcome.DELIVERED] + outcomes[Outcome.FORWARDED] == len(delivered)
    copies = [
        copy for copy in world.ledger.archive.copies(run_id=run_id) if not copy.is_provisional
    ]
    archived = [
        copy.body[DLH_LENGTH:]
        for place in {c.location for c in copies}
        for copy in read_copies(place)
    ]
    assert not Counter(originals[n] for n, *_ in delivered) - Counter(archived)
    assert len(copies) == len(delivered)


def seen_by_applications(world: World) -> Iterator[tuple[Any, bytes]]:
    """Yield the MQMD and the whole body of each delivered message, with an MQRFH2 in the body."""
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        opened = queue_manager.open("PAYMENTS", constants.MQOO_BROWSE)
        for _ in range(embedded_mq.depths("QM1")["PAYMENTS"]):
            descriptor, gmo = module.MD(), module.GMO()
            descriptor.Version = constants.MQMD_VERSION_2
            gmo.Options = constants.MQGMO_BROWSE_NEXT | constants.MQGMO_PROPERTIES_FORCE_MQRFH2
            yield descriptor, bytes(opened.get(None, descriptor, gmo))
        opened.close()
