"""Locations of snapshots and plans in the lake."""

from __future__ import annotations

import pytest

from mqdlq import lake
from mqdlq.errors import LakeError


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: lake.snapshot_directory("lake", "QM1", " ", "s1"),
         "a snapshot needs the name of its queue, found ' ' [MQDLQ-426]"),
        (lambda: lake.snapshot_directory("lake", "QM1", "DLQ", "../s1"),
         ("snapshot id '../s1' cannot name a directory; expected letters, digits, and"
          " `.`, `_`, `-` after the first [MQDLQ-427]")),
        (lambda: lake.plan_directory("lake", ""),
         ("plan id '' cannot name a directory; expected letters, digits, and `.`, `_`,"
          " `-` after the first [MQDLQ-427]")),
    ],
)  # fmt: skip
def test_an_id_that_cannot_name_a_directory_is_rejected(call: object, text: str) -> None:
    with pytest.raises(LakeError) as caught:
        call()  # type: ignore[operator]

    assert str(caught.value) == text


def test_locations_of_snapshots_and_plans_are_below_the_root() -> None:
    assert lake.snapshot_directory("s3://lake/", "QM1", "A/B", "s1") == (
        "s3://lake/snapshots/queue_manager=QM1/queue=A%2FB/s1"
    )
    assert lake.plan_directory("/lake", "s1-abc") == "/lake/plans/s1-abc"


def test_an_error_names_a_location_without_a_file_system() -> None:
    with pytest.raises(
        LakeError, match=r"^nowhere://x/_PLAN.json is not a location that fsspec can open"
    ):
        lake.read_plan("nowhere://x")
