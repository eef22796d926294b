"""Write and read plans: a description, and rows in browse order."""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqdlq.errors import LakeError
from mqdlq.lake import storage
from mqdlq.lake.files import open_parquet
from mqdlq.lake.schema import PLAN, PlanDescription, steps_of_text
from mqdlq.model import Disposition, PlannedMessage, Step
from mqdlq.plan import MESSAGES_TO_A_BUCKET, treatment_digest

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
            row["steps"] = steps_of_text(row["steps"])
            yield PlannedMessage(**row | {"disposition": Disposition(row["disposition"])})


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


# Read a whole plan in columns: a queue has a million messages, but few treatments.

Treatment = tuple[Disposition, tuple[Step, ...]]

_ROWS_AT_ONCE: Final = 16_384
_REPEATED: Final = ["disposition", "steps"]
_HASHED: Final = [name for name in PLAN.names if name not in {"winning_rule", "nearest_rule"}]


@dataclass(frozen=True, slots=True)
class PlanColumns:
    """The rows of a plan in columns, in browse order, and the hash of what the files have.

    A row's treatment is that with the number `numbers` in `treatments`. `message_key` is empty
    unless it was asked for: the keys of a million messages take more than all else.
    """

    browse_seq: npt.NDArray[np.int64]
    message_key: pa.ChunkedArray
    numbers: npt.NDArray[np.int32]
    treatments: Sequence[Treatment]
    plan_hash: str

    def listed(self) -> Iterator[tuple[int, bytes, Disposition]]:
        """Yield browse_seq, message_key and disposition of each row."""
        dispositions = [disposition for disposition, _ in self.treatments]
        for start in range(0, len(self.numbers), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            keys = self.message_key.slice(start, _ROWS_AT_ONCE).to_pylist()
            how = (dispositions[number] for number in self.numbers[part].tolist())
            yield from zip(self.browse_seq[part].tolist(), keys, how, strict=True)

    @property
    def counted(self) -> Iterator[tuple[Treatment, int]]:
        """Each treatment, with the number of its messages."""
        counts = np.bincount(self.numbers, minlength=len(self.treatments))
        return zip(self.treatments, counts.tolist(), strict=True)


def read_columns(directory: str, *, with_keys: bool = False) -> PlanColumns:
    """Read a finished plan; its hash is None's where rows of a bucket are not in browse order."""
    read_plan(directory)
    buckets, known, treatments = Buckets(), dict[tuple[str, str], int](), list[Treatment]()
    places, keys, numbers = [], [pa.array([], pa.binary())], []
    for name in storage.file_names(directory, ".parquet"):
        with open_parquet(f"{directory}/{name}", read_dictionary=_REPEATED) as file:
            # Not by threads, as each would keep memory of its own for one reading.
            for rows in file.iter_batches(
                batch_size=_ROWS_AT_ONCE, columns=_HASHED, use_threads=False
            ):
                found, codes = _distinct_treatments(rows)
                for each in found:
                    if each not in known:
                        known[each] = len(treatments)
                        disposition, text = each
                        treatments.append((Disposition(disposition), steps_of_text(text)))
                own = np.array([known[each] for each in found], np.int32)
                digests = [bytes.fromhex(treatment_digest(*treatments[one])) for one in own]
                content = row_contents(rows, pa.array(digests, pa.binary()).take(codes))
                buckets.add(rows.column("browse_seq"), content)
                places.append(rows.column("browse_seq").to_numpy())
                if with_keys:
                    keys.append(rows.column("message_key"))
                numbers.append(own[codes.to_numpy()])
    browse_seq = np.concatenate([np.empty(0, np.int64), *places])
    held, number = pa.chunked_array(keys), np.concatenate([_NONE, *numbers])
    if (np.diff(browse_seq) < 0).any():  # Spark has written the buckets of its parts in turn
        order = np.argsort(browse_seq, kind="stable")
        browse_seq, number = browse_seq[order], number[order]
        held = held.take(pa.array(order)) if with_keys else held
    return PlanColumns(browse_seq, held, number, treatments, hash_of_buckets(buckets.digests()))


_NONE: Final = np.empty(0, np.int32)


def _distinct_treatments(rows: pa.RecordBatch) -> tuple[list[tuple[str, str]], pa.Array]:
    """Return the distinct dispositions with steps, as texts, and the index of each row's."""
    dispositions, steps = (rows.column(name) for name in _REPEATED)
    size = len(steps.dictionary)
    pairs = dispositions.indices.to_numpy().astype(np.int64) * size + steps.indices.to_numpy()
    distinct = pa.array(pairs).dictionary_encode()
    names, texts = dispositions.dictionary.to_pylist(), steps.dictionary.to_pylist()
    places = (divmod(pair, size) for pair in distinct.dictionary.to_pylist())
    return [(names[name], texts[text]) for name, text in places], distinct.indices


# Digest the rows of a plan, for its hash.
#
# Spark computes the hash without collecting rows, so it has levels. Each distinct treatment is
# digested once, the rows of 4096 consecutive browse numbers form a bucket's digest, and the digests
# of the buckets form the hash. Explanations (see `PlannedMessage`) are not included.


class Buckets:
    """Digests of the buckets of rows that arrive in batches, in the order of `browse_seq`.

    With `sorted`, rows with the same browse number are in the order of their content. Otherwise
    browse numbers must ascend, and a bucket in which they do not has no digest.
    """

    def __init__(self, *, sorted: bool = False) -> None:  # noqa: A002 (what it is)
        self._sorted = sorted
        self._contents: dict[int, Any] = defaultdict(sha256)
        self._last: dict[int, int] = {}
        self._out_of_order: set[int] = set()

    def add(self, browse_seq: pa.Array, content: pa.Array) -> None:
        seqs = browse_seq.to_numpy()
        offsets, contents = _contents(content)
        numbers = seqs // MESSAGES_TO_A_BUCKET
        ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(seqs)]
        start = 0
        for end in ends:
            bucket = int(numbers[start])
            follows = bucket not in self._last or seqs[start] > self._last[bucket]
            if not (self._sorted or (follows and (np.diff(seqs[start:end]) > 0).all())):
                self._out_of_order.add(bucket)
            self._contents[bucket].update(contents[offsets[start] : offsets[end]])
            self._last[bucket] = int(seqs[end - 1])
            start = end

    def digests(self) -> dict[int, str | None]:
        """Return the digest (hex) of each bucket so far, None if its rows were not in order."""
        return {
            bucket: None if bucket in self._out_of_order else content.hexdigest()
            for bucket, content in self._contents.items()
        }


def row_contents(rows: pa.RecordBatch, digests: pa.Array) -> pa.Array:
    """Return the unique bytes of each row: each value after its length, and the treatment's digest.

    `digests` are those of the treatments.
    """
    keys = rows.column("message_key")
    numbers = pc.cast(rows.column("browse_seq"), pa.string()).cast(pa.binary())
    lengths = pc.cast(pc.binary_length(keys), pa.string()).cast(pa.binary())
    names = (_measured(rows.column(name)) for name in ("queue_manager", "queue"))
    colon = pa.scalar(b":")
    return pc.binary_join_element_wise(numbers, colon, lengths, colon, keys, *names, digests, b"")


def _measured(names: pa.Array) -> pa.Array:
    """Prefix each of a few names with its length."""
    held = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
    measured = [f"{len(name)}:{name}".encode() for name in held.dictionary.to_pylist()]
    return pa.array(measured, pa.binary()).take(held.indices)


def _contents(column: pa.Array) -> tuple[Any, memoryview]:
    """Return where each value begins in Arrow's buffer of values, and that buffer."""
    _, offsets, contents = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return starts, memoryview(contents)


def hash_of_buckets(digests: Mapping[int, str | None]) -> str:
    return sha256("".join(str(digests[one]) for one in sorted(digests)).encode()).hexdigest()
