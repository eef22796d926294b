"""Write and read plans: a description, and rows in browse order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final

import pyarrow.parquet as pq

from mqdlq.errors import LakeError
from mqdlq.lake import storage
from mqdlq.lake.files import open_parquet
from mqdlq.lake.schema import PlanDescription
from mqdlq.model import Action, Disposition, PlannedMessage, PutAuthority, Step

DESCRIPTION: Final = "_PLAN.json"
_CONTENTS: Final = ("part-", "_", ".")
_ATTEMPTS: Final = "_attempts"


def start_plan(directory: str) -> None:
    """Create the directory of a plan; remove the files of an unfinished evaluation."""
    storage.make_empty_directory(directory, _CONTENTS)
    storage.make_directory(f"{directory}/{_ATTEMPTS}")


def attempt(directory: str, name: str) -> str:
    """Return the location of a file that may become a part of a plan; readers skip it."""
    return f"{directory}/{_ATTEMPTS}/{name}"


def keep_attempts(directory: str, names: Sequence[str]) -> None:
    """Make exactly these files the parts of a plan, in this order.

    Files of other attempts are removed. Readers ignore files that a late task still writes.
    """
    for number, name in enumerate(names):
        storage.move(attempt(directory, name), f"{directory}/part-{number:05d}.parquet")
    storage.remove_directory(f"{directory}/{_ATTEMPTS}")


def finish_plan(directory: str, description: PlanDescription) -> None:
    """Write a plan's description next to its rows; with it, the plan exists."""
    storage.settle(directory)
    storage.write_text(f"{directory}/{DESCRIPTION}", description.to_json())


def read_plan(directory: str) -> PlanDescription:
    """Return the description of a plan; raise `LakeError` if the plan is unfinished."""
    description = find_plan(directory)
    if description is None:
        raise LakeError(
            "MQDLQ-417",
            f"{directory} is not a plan, as it has no {DESCRIPTION}; evaluate the snapshot again",
        )
    return description


def find_plan(directory: str) -> PlanDescription | None:
    """Return the description of a plan, or None if there is no finished plan."""
    place = f"{directory}/{DESCRIPTION}"
    text = storage.read_text(place)
    return None if text is None else PlanDescription.from_json(text, place)


def finished_plans(root: str) -> Iterator[PlanDescription]:
    for place in storage.matching(root, f"/plans/*/{DESCRIPTION}"):
        yield read_plan(place.removesuffix(f"/{DESCRIPTION}"))


def planned_messages(directory: str) -> Iterator[PlannedMessage]:
    """Yield the rows of a finished plan in browse order; keep one batch of each file in memory."""
    read_plan(directory)
    yield from unfinished_messages(directory)


def unfinished_messages(directory: str) -> Iterator[PlannedMessage]:
    """Yield the rows of a plan like `planned_messages`, also of an unfinished one."""
    with ExitStack() as opened:
        names = storage.file_names(directory, ".parquet")
        files = [opened.enter_context(open_parquet(f"{directory}/{name}")) for name in names]
        # Each file is sorted.
        for row in heapq.merge(*map(_rows, files), key=lambda row: int(row["browse_seq"])):
            yield _planned_message(row)


def count_planned(directory: str) -> int:
    """Count the rows of a plan, also an unfinished one, from its files' footers."""
    rows = 0
    for name in storage.file_names(directory, ".parquet"):
        with open_parquet(f"{directory}/{name}") as file:
            rows += file.metadata.num_rows
    return rows


def _rows(file: pq.ParquetFile) -> Iterator[dict[str, Any]]:
    for batch in file.iter_batches(batch_size=1024):
        yield from batch.to_pylist()


def _planned_message(row: dict[str, Any]) -> PlannedMessage:
    for step in row["steps"]:
        step["action"] = Action(step["action"])
        step["put_authority"] = PutAuthority(step["put_authority"])
    row["steps"] = tuple(Step(**step) for step in row["steps"])
    return PlannedMessage(**row | {"disposition": Disposition(row["disposition"])})
