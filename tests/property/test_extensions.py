"""For all tables with extensions and all messages: batches are decided as one message is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqdlq.evaluation.decisions import Decisions
from mqdlq.lake.schema import HEADERS
from mqdlq.rules import RulesTable, freeze, matching_rules, parse
from tests.support.evaluation.equality import NOON

pytestmark = pytest.mark.slow

SIGNS = st.sampled_from(["<", "<=", ">", ">="])
NUMBERS = st.integers(0, 4) | st.integers(0, 999_999_999)
TIMES = st.builds("{} {}{}".format, SIGNS, NUMBERS, st.sampled_from(["s", "min", "h", "d"]))
SIZES = st.builds("{} {}{}".format, SIGNS, NUMBERS, st.sampled_from(["", "B", "kB", "MiB"]))
WORDS = st.sampled_from(["MQRFH2", "MQRFH", "MQCIH", "*", "MQ?FH*", "MQRFH?"])
CONDITIONS_ON_PROPERTIES = st.sampled_from(["usr.a = A*", "usr.a = A*B", "usr.b = *", "usr.b > 1"])
CONDITIONS = {
    "AGE": TIMES,
    "EXPIRES_IN": TIMES | st.just("never"),
    "LENGTH": SIZES,
    "ATTEMPTS": st.builds("{} {}".format, SIGNS, NUMBERS),
    "PROPERTY": CONDITIONS_ON_PROPERTIES,
    "HEADER_CHAIN": st.lists(WORDS, max_size=3).map(lambda words: " ".join(["MQDLH", *words])),
}
PATTERNS = st.fixed_dictionaries({}, optional=CONDITIONS)
SPANS = st.integers(-4, 4).map(lambda s: timedelta(seconds=s)) | st.timedeltas(
    timedelta(days=-1000), timedelta(days=1000)
)
ROWS = st.fixed_dictionaries(
    {
        "browsed_at": st.just(NOON) | st.none(),
        "dead_lettered_at": SPANS.map(lambda span: NOON - span) | st.none(),
        "expires_at": SPANS.map(lambda span: NOON + span) | st.none(),
        "expiry": st.integers(-1, 4) | st.none(),
        "total_length": st.integers(170, 180) | st.integers(0, 1 << 31 - 1) | st.none(),
        "header_chain": st.lists(st.sampled_from(["MQRFH2", "MQRFH", "MQCIH"]), max_size=3).map(
            lambda names: ["MQDLH", *names]
        )
        | st.none(),
        "chain_is_whole": st.booleans() | st.none(),
        "attempts_made": st.integers(0, 4) | st.none(),
        "properties_met": st.lists(CONDITIONS_ON_PROPERTIES, unique=True) | st.none(),
        "properties_unmet": st.just([]) | st.none(),
    }
)


@st.composite
def tables(draw: st.DrawFn) -> RulesTable:
    rules = draw(st.lists(PATTERNS, min_size=1, max_size=6))
    lines = [[f"{name}('{value}')" for name, value in rule.items()] for rule in rules]
    text = "".join(f"{' '.join(line)} ACTION(RETRY)\n" for line in lines)
    return parse(text, frozen=True)


@given(tables(), st.lists(ROWS, min_size=1, max_size=20))
@settings(max_examples=300, deadline=None)
def test_batches_are_decided_as_the_matcher_decides(
    table: RulesTable, values: list[dict[str, Any]]
) -> None:
    assert parse(freeze(table), frozen=True) == table
    rows = [{"class": "dead_letter", **row} for row in values]
    names = ["class", *table.columns, *({"dlh_dest_q_name", "dlh_dest_q_mgr_name"})]
    schema = pa.schema([HEADERS.field(name).with_nullable(True) for name in names])
    batch = pa.RecordBatch.from_pylist(
        [{name: row.get(name) for name in names} for row in rows], schema
    )

    decisions = Decisions(table)
    numbers = decisions.numbers(batch)

    for row, number in zip(rows, numbers.tolist(), strict=True):
        found = [step.rule for step in decisions.treatments.steps(number)]
        assert found == [rule.ordinal for rule in matching_rules(table, row)]
        same = [other for other in rows if table.key_of(other) == table.key_of(row)]
        assert len({tuple(matching_rules(table, other)) for other in same}) == 1
