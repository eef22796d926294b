"""Generate snapshots and rules tables for the benchmarks.

`easy`: 2,000 incidents, a few of which cause most messages, as on a real dead-letter queue.
`hard`: the same with user identifiers, identity data and reply queues that rarely repeat.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.lake import SnapshotManifest
from mqdlq.lake.schema import HEADERS
from mqdlq.lake.snapshots import MANIFEST
from mqdlq.lake.storage import make_directory, write_text
from mqdlq.rules import parse
from mqdlq.rules.keywords import KEYWORDS, Kind

INCIDENTS = 2_000
VARYING_SHARE = 0.2  # of the messages, whose type and persistence are not their incident's
MESSAGES_TO_A_FILE = 1_000_000
ROWS_TO_A_GROUP = 8192  # as the snapshot stage writes them
_APPLICATIONS = ("PAY", "ORD", "INV", "CRM", "SHIP", "RISK", "KYC", "LOAN")
_PATTERNS = {keyword.name: keyword for keyword in KEYWORDS.values() if keyword.is_pattern}
_LIKELY = {"REASON": 6, "DESTQ": 8, "APPLNAME": 3, "USERID": 3, "DESTQM": 2, "APPLIDAT": 2}


def values_of_keywords() -> dict[str, list[Any]]:
    """Return the values of messages and rules by keyword."""
    ways = ("IN", "OUT", "REQ", "REPLY", "ERROR", "AUDIT")
    managers = [f"QM{letter}{number}" for letter in "ABCD" for number in (1, 2, 3)]
    queues = [f"{_APPLICATIONS[n % 8]}.{ways[n % 6]}.{n:03d}" for n in range(300)]
    return {
        "APPLIDAT": [f"{_APPLICATIONS[n % 8]}-{['EU', 'US', 'AP'][n % 3]}%{n}" for n in range(60)],
        "APPLNAME": [f"/opt/{_APPLICATIONS[n % 8].lower()}/server_{n}" for n in range(80)],
        "APPLTYPE": [6, 11, 13, 28, 2],
        "DESTQ": queues,
        "DESTQM": managers,
        "FEEDBACK": [0, 259, 260, 258],
        "FORMAT": ["MQSTR", "MQHRF2", "", "XMLMSG", "MQCICS"],
        "MSGTYPE": [8, 1, 2, 4],
        "PERSIST": [0, 1],
        "REASON": [2053, 2035, 2085, 2051, 2087, 2056, 2030, 2016, 2079, 2082, 2192, 2110],
        "REPLYQ": ["", *(f"{name}.REPLY" for name in queues[:120])],
        "REPLYQM": ["", *managers],
        "USERID": [f"svc{n:03d}" for n in range(70)],
    }


def rules_text(rules: int, seed: int = 1) -> str:
    """Return a table of rules with two to four patterns each, half of them with wildcards."""
    random = np.random.default_rng([seed, rules])
    values = values_of_keywords()
    names = list(values)
    weights = np.array([_LIKELY.get(name, 1) for name in names], float)
    lines = []
    for number in range(rules - 1):
        chosen = random.choice(len(names), random.integers(2, 5), False, weights / weights.sum())
        patterns = [_pattern(names[n], values[names[n]], random) for n in sorted(chosen)]
        action = ("RETRY", "FWD", "FWD", "IGNORE", "DISCARD")[number % 5]
        what = f"ACTION({action})" + (
            f" FWDQ({'&DESTQ' if number % 2 else 'PARKED'})" * (action == "FWD")
        )
        lines.append(" +\n  ".join([*patterns, what]))
    return "\n".join([*lines, "ACTION(FWD) FWDQ(UNRESOLVED) HEADER(YES)", ""])


def _pattern(name: str, values: list[Any], random: np.random.Generator) -> str:
    value = values[random.integers(0, len(values))]
    if _PATTERNS[name].kind is not Kind.TEXT:
        return f"{name}({value})"
    if not value:
        return f"{name}(?*)"
    cut = int(random.integers(2, len(value)))
    shapes = (value, value, f"{value[:cut]}*", f"*{value[cut - 2 : cut + 2]}*", f"{value[:-1]}?")
    return f"{name}('{shapes[random.integers(0, len(shapes))]}')"


def write_snapshot(root: str, shape: str, messages: int) -> str:
    """Write a snapshot with this number of messages, and return its directory."""
    directory = f"{root}/{shape}-{messages}"
    make_directory(f"{directory}/headers")
    random = np.random.default_rng(messages)
    for number, start in enumerate(range(0, messages, MESSAGES_TO_A_FILE)):
        size = min(MESSAGES_TO_A_FILE, messages - start)
        pq.write_table(
            _rows(shape, start, size, random),
            f"{directory}/headers/part-{number:05d}.parquet",
            row_group_size=ROWS_TO_A_GROUP,
        )
    set_rules(directory, f"{shape}-{messages}", messages, rules_text(100))
    return directory


def set_rules(directory: str, snapshot_id: str, messages: int, rules: str) -> None:
    """Write the manifest of a generated snapshot with these rules."""
    manifest = SnapshotManifest(
        snapshot_id=snapshot_id,
        queue_manager="QM1",
        queue="DEAD.LETTERS",
        taken_at=datetime(2026, 11, 21, 12, tzinfo=UTC),
        taken_by="benchmark",
        messages=messages,
        bytes=1000 * messages,
        digest=sha256(snapshot_id.encode()).hexdigest(),
        rules_digest=parse(rules).digest,
        rules_text=rules,
    )
    write_text(f"{directory}/{MANIFEST}", manifest.to_json())


def _rows(shape: str, start: int, size: int, random: np.random.Generator) -> pa.Table:
    """Return rows of `headers` with all their columns."""
    columns: dict[str, Any] = {
        "browse_seq": pa.array(np.arange(start, start + size)),
        "message_key": _binary(random, size, 32),
        "msg_id": _binary(random, size, 24),
        "correl_id": _binary(random, size, 24),
        "class": _repeated("dead_letter", size),
        "problem": _repeated("", size),
        "total_length": pa.array(random.integers(200, 4000, size), pa.int32()),
    }
    incident = _incidents(random, size)
    fixed = np.random.default_rng(7)  # what an incident looks like is the same everywhere
    for name, values in values_of_keywords().items():
        looks = fixed.integers(0, len(values), INCIDENTS)[incident]
        if name in {"MSGTYPE", "PERSIST"}:
            others = random.integers(0, len(values), size)
            looks = np.where(random.random(size) < VARYING_SHARE, others, looks)
        columns[_PATTERNS[name].column] = pa.array(values).take(pa.array(looks))
    if shape == "hard":
        columns |= {
            "user_identifier": _numbered("usr{:07d}", random.integers(0, 200_000, size)),
            "appl_identity_data": _numbered("PAY-EU%{}", random.integers(0, 5_000_000, size)),
            "reply_to_q": _numbered("PAY.REPLY.{:06d}", random.integers(0, 100_000, size)),
        }
    return pa.table(
        [
            columns[field.name].cast(field.type) if field.name in columns else _absent(field, size)
            for field in HEADERS
        ],
        schema=HEADERS,
    )


def _incidents(random: np.random.Generator, size: int) -> np.ndarray:
    share = 1 / np.arange(1, INCIDENTS + 1) ** 1.1
    return random.choice(INCIDENTS, size, p=share / share.sum())


def _numbered(form: str, numbers: np.ndarray) -> pa.Array:
    return pa.array([form.format(number) for number in numbers])


def _repeated(value: str, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), size)


def _absent(field: pa.Field, size: int) -> pa.Array:
    return pa.nulls(size, field.type)


def _binary(random: np.random.Generator, size: int, width: int) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), size, [None, pa.py_buffer(random.bytes(size * width))]
    ).cast(pa.binary())
