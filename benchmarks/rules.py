"""The rules language: time in seconds, and as a multiple of a floor.

The floor of parsing is to split a table into lines, and lines into keywords and values by one
regular expression. The floor of matching is to compare a field with a pattern without wildcards.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import perf_counter
from typing import Any

from mqdlq.handlers import to_table, to_yaml
from mqdlq.rules import compare, format_table, parse, print_table
from mqdlq.rules.lint import lint
from mqdlq.rules.wildcards import compiled

RULES = 10_000
REPETITIONS = 5
MATCHES = 1_000
PARAMETER = re.compile(r"(\w+)\s*\(\s*('(?:[^']|'')*'|[^)]*)\s*\)")
HOSTILE = {
    "48 A's against *A*A*...*B": ("*A" * 24 + "*B", "A" * 48),
    "48 A's against ?*?*...?*B": ("?*" * 24 + "B", "A" * 48),
    "48 blanks against *?": ("*?", " " * 48),
    "a match at the very end": ("*A" * 20 + "*", "A" * 48),
}


def measure() -> dict[str, Any]:
    """Return seconds, the best of five, and ratios to the floor of the same run."""
    text = table_text(RULES)
    other = text.replace("RETRY(2)", "RETRY(3)")
    table, changed = parse(text), parse(other)
    yaml = to_yaml(text)
    floor = best(lambda: [PARAMETER.findall(line) for line in text.splitlines()])
    work: dict[str, Callable[[], object]] = {
        "parse": lambda: parse(text),
        "print": lambda: print_table(table),
        "format": lambda: format_table(text),
        "lint": lambda: lint(table, text=text),
        "compare": lambda: compare(table, changed),
        "to_yaml": lambda: to_yaml(text),
        "to_table": lambda: to_table(yaml),
    }
    return {
        "rules": RULES,
        "floor_s": floor,
        "per_thousand_rules": {
            name: {"s": (seconds := best(done)) * 1000 / RULES, "ratio": seconds / floor}
            for name, done in work.items()
        },
        "matcher": {name: matching(*case) for name, case in HOSTILE.items()},
    }


def matching(pattern: str, field: str) -> dict[str, float]:
    """Return the microseconds of one match, and its multiple of a plain comparison."""
    hostile, plain = compiled(pattern), compiled("A" * 47 + "B")
    seconds = best(lambda: [hostile.match(field) for _ in range(MATCHES)])
    floor = best(lambda: [plain.match(field) for _ in range(MATCHES)])
    return {"us": seconds / MATCHES * 1e6, "ratio": seconds / floor}


def best(done: Callable[[], object]) -> float:
    """Return the seconds of the fastest repetition."""
    seconds = []
    for _ in range(REPETITIONS):
        start = perf_counter()
        done()
        seconds.append(perf_counter() - start)
    return min(seconds)


def table_text(rules: int) -> str:
    """Return a table with this number of rules of every kind."""
    kinds = (
        "* Payments\nDESTQ(PAYMENTS.{0}.*) REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(2)\n",
        "REASON(MQRC_UNKNOWN_OBJECT_NAME) DESTQ(ORDERS.{0}) +\n  ACTION(FWD) FWDQ(PARKED)\n",
        "MSGTYPE(MQMT_REPLY) REPLYQ('Reply''s.{0}*') ACTION(DISCARD)\n",
        "APPLNAME('legal-hold {0}*') USERID(?*) ACTION(IGNORE)\n",
    )
    return "".join(kinds[n % len(kinds)].format(n) for n in range(rules))
