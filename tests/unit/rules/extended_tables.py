"""Tables with extensions, and a row of a snapshot that they match or not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mqdlq.rules import RulesError, RulesTable, matching_rules, parse

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
LETTER: dict[str, Any] = {
    "browsed_at": NOON,
    "dead_lettered_at": NOON - timedelta(hours=2),
    "expires_at": NOON + timedelta(minutes=10, microseconds=999_999),
    "expiry": 6_009,
    "total_length": 172 + 1_000_000,
    "header_chain": ["MQDLH", "MQRFH2"],
    "chain_is_whole": True,
    "attempts_made": 3,
    "properties_met": ["usr.orderType = REFUND*", "usr.amount > 100"],
    "properties_unmet": ["usr.orderType = SALE"],
}


def frozen(*conditions: str) -> RulesTable:
    return parse("".join(f"{one} ACTION(IGNORE)\n" for one in conditions), frozen=True)


def matches(condition: str, **columns: Any) -> bool:
    return bool(matching_rules(frozen(condition), LETTER | columns))


def error(text: str, *, is_frozen: bool = True) -> str:
    with pytest.raises(RulesError) as raised:
        parse(text, frozen=is_frozen)
    return str(raised.value).partition("\n")[0]
