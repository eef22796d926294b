"""Random tables and messages to prove that Spark matches messages as the core's matcher does.

Both are made to be difficult: values are cut and joined from the words of the rules, with blanks,
nulls, NULs, wildcards, quotes and non-ASCII letters; some columns hardly ever repeat.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from mqdlq.model import Disposition, PlannedMessage
from mqdlq.plan import resolve, step_of
from mqdlq.rules import RulesTable, explain, freeze, parse, with_nuls_as_blanks
from mqdlq.rules.keywords import EXTENSIONS, KEYWORDS, Keyword, Kind

PATTERNS = [keyword for keyword in KEYWORDS.values() if keyword.is_pattern]
WORDS = ["A", "AB", "ABC", "a", "%", "_", "\\", ".", "$^", "(|", "[x]", "'", '"', "é", "😀", " "]
ODD = [*WORDS, "", "   ", "A\0", "\0", "\t", "\n", "x" * 12, " A", "A B"]
CUTS = ["*", "?", "**", "*?"]
NUMBERS = [0, 1, 2053, 2085, 999_999_999]
VARYING = ("put_appl_name", "reply_to_q", "feedback", "user_identifier")


CONDITIONS = {
    Kind.TIME: ["< 0s", "<= 1s", "> 1s", "< 2h", ">= 2h", "> 2h", "<= 2h", "> 1d"],
    Kind.SIZE: ["< 1", ">= 1B", "> 1kB", "<= 1000", "> 1MB"],
    Kind.COUNT: ["< 1", ">= 1", "> 2", "<= 2"],
    Kind.PROPERTY: ["usr.a = A*", "usr.a = A*B", "usr.b = *", "usr.b > 1", "usr.c = A"],
    Kind.CHAIN: ["MQDLH", "MQDLH *", "* MQRFH2", "MQDLH MQRFH?", "MQ*"],
}
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SPANS = [timedelta(seconds=s, microseconds=u) for s in (-1, 0, 1, 7200, 86400) for u in (-1, 0, 1)]


def random_table(seed: int, rules: int, *, extensions: bool = False) -> RulesTable:
    """Return a table with patterns of every keyword and shape, and every action."""
    chance = random.Random(seed)
    entries = [_entry(chance) for _ in range(rules)]
    if extensions:
        entries = [[*_extensions(chance), *entry] for entry in entries]
    text = "".join(" +\n ".join(entry) + "\n" for entry in entries)
    return parse(freeze(parse(text, frozen=True)), frozen=True)


def random_rows(seed: int, number: int, start: int = 0) -> list[dict[str, Any]]:
    """Return rows that a snapshot may hold; every 16th is not a dead letter."""
    chance = random.Random(seed)
    rows = []
    for browse_seq in range(start, start + number):
        row: dict[str, Any] = {
            "browse_seq": browse_seq * 3,
            "message_key": browse_seq.to_bytes(32, "big"),
            "class": "dead_letter" if chance.random() > 1 / 16 else "no_dlh",
        }
        for keyword in PATTERNS:
            row[keyword.column] = _value(chance, keyword.kind, keyword.length)
            if keyword.column in VARYING and chance.random() < 0.7:
                row[keyword.column] = (
                    browse_seq if keyword.kind is not Kind.TEXT else f"A{browse_seq}"
                )
        rows.append(row | _of_extensions(random.Random(f"{seed} {browse_seq}")))
    return rows


def expected(
    rows: list[dict[str, Any]], table: RulesTable, *, nul_as_blank: bool = False
) -> Iterator[PlannedMessage]:
    """Yield the core's plan for each message, with its explanation."""
    for row in rows:
        valid = row["class"] == "dead_letter"
        found = explain(table, with_nuls_as_blanks(row) if nul_as_blank else row)
        templates = [step_of(rule) for rule in found.chain] if valid else []
        planned = Disposition.PLANNED if templates else Disposition.UNMATCHED
        nearest = found.nearest.rule.ordinal if valid and found.nearest else None
        yield PlannedMessage(
            row["browse_seq"],
            row["message_key"],
            "QM1",
            "DLQ",
            planned if valid else Disposition.UNPROCESSABLE,
            tuple(resolve(template, row) for template in templates),
            templates[0].rule if templates else None,
            nearest,
        )


def _extensions(chance: random.Random) -> list[str]:
    chosen = chance.sample(list(EXTENSIONS.values()), chance.choice([0, 1, 1, 2]))
    return [f"{keyword.name}('{_condition(chance, keyword)}')" for keyword in chosen]


def _condition(chance: random.Random, keyword: Keyword) -> str:
    return chance.choice([*CONDITIONS[keyword.kind], *keyword.words])


def _of_extensions(chance: random.Random) -> dict[str, Any]:
    """Return the columns that extensions use; each can be null."""
    row = {
        "browsed_at": NOON,
        "dead_lettered_at": NOON - chance.choice(SPANS),
        "expires_at": NOON + chance.choice(SPANS),
        "expiry": chance.choice([-1, 0, 1, 36_000]),
        "total_length": 172 + chance.choice([-1, 0, 1, 1000, 1001, 10**6, 10**6 + 1]),
        "header_chain": ["MQDLH", *chance.choice([[], ["MQRFH2"], ["MQRFH"], ["MQCIH", "MQRFH2"]])],
        "chain_is_whole": chance.random() > 1 / 8,
        "attempts_made": chance.choice([0, 1, 2, 3]),
        "properties_met": chance.sample(CONDITIONS[Kind.PROPERTY], chance.choice([0, 1, 2, 5])),
        "properties_unmet": [],
    }
    return {name: None if chance.random() < 1 / 16 else value for name, value in row.items()}


def _entry(chance: random.Random) -> list[str]:
    chosen = chance.sample(PATTERNS, chance.choice([0, 1, 1, 2, 2, 3]))
    parts = [f"{keyword.name}({_pattern(chance, keyword.kind)})" for keyword in chosen]
    action = chance.choice(["RETRY", "RETRY", "FWD", "FWD", "FWD", "IGNORE", "DISCARD"])
    if action in {"IGNORE", "DISCARD"} and not chosen:
        action = "RETRY"
    parts.append(f"ACTION({action})")
    if action == "RETRY":
        parts.append(f"RETRY({chance.choice([1, 2, 5])})")
    if action == "FWD":
        parts.append(f"FWDQ({chance.choice(['PARKED', '&REPLYQ', '&DESTQ', 'B.Q'])})")
        parts += chance.choice([[], ["FWDQM(&DESTQM)"], ["FWDQM(QM9)"], ["FWDQM(&REPLYQM)"]])
        parts += chance.choice([[], ["HEADER(NO)"], ["PUTAUT(CTX)"]])
    return parts


def _pattern(chance: random.Random, kind: Kind) -> str:
    if kind is not Kind.TEXT:
        return str(chance.choice(NUMBERS))
    words = [chance.choice([*WORDS, *CUTS, *CUTS]) for _ in range(chance.choice([1, 2, 2, 3]))]
    text = "".join(words)[:8].replace("'", "''" if len("".join(words)) < 8 else "A")
    return f"'{text or 'A'}'"


def _value(chance: random.Random, kind: Kind, length: int) -> Any:
    if chance.random() < 0.05:
        return None
    if kind is not Kind.TEXT:
        return chance.choice(NUMBERS)
    words = [chance.choice(ODD) for _ in range(chance.choice([0, 1, 1, 2, 3]))]
    return "".join(words)[:length].rstrip(" ")
