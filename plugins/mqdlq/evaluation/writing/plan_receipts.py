"""Derive a plan's hash and counts from the receipts of its parts."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from mqdlq.evaluation.deciding.treatments import summed
from mqdlq.evaluation.writing.plan_parts import Receipt
from mqdlq.lake import StepCount
from mqdlq.model import Disposition


def buckets_are_complete(receipts: Iterable[Receipt]) -> bool:
    """Whether every bucket was in one task, in order, so that its digest is valid for the plan."""
    buckets = [bucket for receipt in receipts for bucket in receipt.buckets]
    in_order = all(bucket.digest is not None for bucket in buckets)
    return in_order and len({bucket.bucket for bucket in buckets}) == len(buckets)


def hash_of(receipts: Iterable[Receipt]) -> str:
    """Return the plan's hash, which equals `mqdlq.plan.plan_hash` of all rows."""
    buckets = [bucket for receipt in receipts for bucket in receipt.buckets]
    whole = sha256()
    for bucket in sorted(buckets, key=lambda bucket: bucket.bucket):
        whole.update(str(bucket.digest).encode())
    return whole.hexdigest()


def dispositions_of(receipts: Iterable[Receipt]) -> dict[str, int]:
    """Count the messages by disposition."""
    found = {disposition.value: 0 for disposition in Disposition}
    for receipt in receipts:
        for name, count in receipt.dispositions.items():
            found[name] += count
    return found


def counts_of(receipts: Iterable[Receipt]) -> tuple[StepCount, ...]:
    """Count the planned messages by first step, in the order of a description."""
    counts = summed(count for receipt in receipts for count in receipt.counts)
    return tuple(sorted(counts, key=lambda count: (count.rule, count.target_q, count.target_q_mgr)))
