"""Tools that explain, over the demo world."""

from __future__ import annotations

import pytest

from mqdlq.agents.catalogue import DUMP
from tests.support.agents import call, door, examples
from tests.support.world import World

pytestmark = pytest.mark.slow


def test_a_message_is_explained_by_each_rule_and_why_it_does_not_match(world: World) -> None:
    opened = door(world)
    found = call(opened, "explain_message", **examples(opened)["explain_message"])

    rules = [(one["line"], one["matches"], one["untrusted"]) for one in found["rules"]]
    assert rules[2] == (6, True, {"why": "matches, ACTION(RETRY)"})
    assert rules[1] == (5, False, {"why": "DESTQ expects 'PAYMENTS', DestQName is 'CLOSED'"})


def test_a_reason_is_explained_by_its_number_or_its_name(world: World) -> None:
    by_number, by_name = (
        call(door(world), "explain_reason", reason=one) for one in (2053, "MQRC_Q_FULL")
    )

    assert by_number == by_name
    assert by_name["kind"] == "passes by itself"
    assert "reason: found 'full'" in call(door(world), "explain_reason", reason="full")


def test_a_diagnosis_names_what_refuses_and_keeps_nothing(world: World) -> None:
    opened = door(world)
    given = examples(opened)["diagnose"]
    known = world.ledger.engine.connect().exec_driver_sql("SELECT count(*) FROM diagnoses").scalar()
    (found,) = call(opened, "diagnose", **given)["rows"]

    assert found["outlook"] == "a put would be refused now"
    assert "PUT(DISABLED)" in str(found["untrusted"]["findings"])
    assert "ALTER QLOCAL" in str(found["untrusted"]["commands_for_a_person"])
    after = world.ledger.engine.connect().exec_driver_sql("SELECT count(*) FROM diagnoses").scalar()
    assert after == known


def test_who_may_only_read_gets_no_diagnosis(world: World) -> None:
    reader = door(world, may_act=False)

    assert call(reader, "diagnose", handler="demo") == (
        "alice may not start runs of mq_dlq_demo; ask for permission to trigger this DAG in Airflow"
        " [MQDLQ-998]"
    )


def test_a_dump_meets_the_rules_of_a_handler(world: World) -> None:
    (found,) = call(door(world), "explain_dump", handler="demo", dump=DUMP)["rows"]

    assert (found["message_class"], found["total_bytes"]) == ("dead_letter", 172)
    assert [one["line"] for one in found["rules"] if one["matches"]] == [5]
    assert call(door(world), "explain_dump", handler="demo", dump="xyz").endswith("[MQDLQ-906]")


def test_a_table_with_an_error_is_not_valid(world: World) -> None:
    found = call(door(world), "check_rules", table="ACTION(EXPLODE)\n")

    assert not found["is_valid"]
    assert found["findings"][0]["line"] == 1


def test_a_new_table_is_compared_on_past_snapshots(world: World) -> None:
    everything = "DESTQ(CLOSED) ACTION(DISCARD)\n"
    found = call(door(world), "compare_rules", handler="demo", table=everything)

    assert found["messages"] > found["different"] > 0
    assert {"before", "after"} == found["changes"][0]["untrusted"].keys()
    assert "table:1:" in call(door(world), "compare_rules", handler="demo", table="ACTION(X)\n")
