"""The hash of a plan by its definition, row by row; `mqdlq.lake.plans` computes it in columns."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from itertools import groupby

from mqdlq.model import PlannedMessage
from mqdlq.plan import MESSAGES_TO_A_BUCKET, treatment_digest


def plan_hash(rows: Iterable[PlannedMessage]) -> str:
    """Return the SHA-256 (hex) over a plan's content; `rows` come in browse order."""
    plan = sha256()
    for _, bucket in groupby(rows, key=lambda row: row.browse_seq // MESSAGES_TO_A_BUCKET):
        content = sorted((row.browse_seq, row_content(row)) for row in bucket)
        plan.update(sha256(b"".join(row for _, row in content)).hexdigest().encode())
    return plan.hexdigest()


def row_content(row: PlannedMessage) -> bytes:
    """Return the unique bytes of a row: each value after its length."""
    names = "".join(f"{len(name)}:{name}" for name in (row.queue_manager, row.queue))
    start = f"{row.browse_seq}:{len(row.message_key)}:".encode()
    treatment = bytes.fromhex(treatment_digest(row.disposition, row.steps))
    return start + row.message_key + names.encode() + treatment
