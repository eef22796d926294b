"""The contestants of the Spark benchmark, which all read the same Parquet files.

- ours: the whole evaluation, from the snapshot to the finished plan with its hash and counts.
- floor: Spark reads the same columns and writes one number, made of all columns, for each row.
- shape: Spark reads two columns and writes rows of a plan's shape with one constant treatment.
- duckdb, polars: find distinct combinations, call the matcher for each distinct value, join back,
  and write the numbers of the matching rules. They make no plan, targets or hash.
- python: one process reads row by row, calls the matcher and makes the steps, like runmqdlq.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.lake.schema import steps_of_text, steps_text
from mqdlq.model import Action, PutAuthority, Step
from mqdlq.plan import resolve, steps_for
from mqdlq.rules import parse

THREADS = 2
PYTHON_S = 10


def ours(_: Any, directory: str, __: str, out: Path) -> str:
    """Evaluate by the table in the manifest, and return the chosen strategy."""
    from mqdlq.evaluation.evaluate import evaluate  # noqa: PLC0415 (needs a session)

    shutil.rmtree(out, ignore_errors=True)
    said = StringIO()
    with redirect_stdout(said):
        evaluate(directory, plan=str(out))
    return said.getvalue().splitlines()[1].removeprefix("evaluate_rules: ")


def floor(spark: Any, directory: str, text: str, out: Path) -> None:
    """Scan the same columns and write as many rows."""
    from pyspark.sql import functions as F  # noqa: N812

    from mqdlq.evaluation.decisions import columns_needed  # noqa: PLC0415

    columns = columns_needed(parse(text))
    rows = spark.read.parquet(f"{directory}/headers")
    everything = F.xxhash64(*columns).alias("everything")
    rows.select("browse_seq", "message_key", everything).write.mode("overwrite").parquet(str(out))


def shape(spark: Any, directory: str, _: str, out: Path) -> None:
    """Write rows of a plan, all with the same two steps."""
    from pyspark.sql import functions as F  # noqa: N812

    steps = steps_text([Step(1, 1, Action.FWD, "PARKED", "", False, PutAuthority.DEF, 1)] * 2)
    rows = spark.read.parquet(f"{directory}/headers").select("browse_seq", "message_key")
    rows.select(
        "*",
        F.lit("QM1").alias("queue_manager"),
        F.lit("DEAD.LETTERS").alias("queue"),
        F.lit("planned").alias("disposition"),
        F.lit(steps).alias("steps"),
        F.lit(None).cast("int").alias("winning_rule"),
        F.lit(None).cast("int").alias("nearest_rule"),
    ).write.mode("overwrite").parquet(str(out))


def duckdb(_: Any, directory: str, text: str, out: Path) -> None:
    """Decide about distinct combinations and join them back."""
    import duckdb as engine  # noqa: PLC0415

    columns = parse(text).columns
    names = ", ".join(f'"{name}"' for name in columns)
    with engine.connect() as database:
        database.execute(f"SET threads={THREADS}; SET preserve_insertion_order=false")
        files = f"read_parquet('{directory}/headers/*.parquet')"
        seen: Any = database.execute(f"SELECT DISTINCT {names} FROM {files}").to_arrow_table()  # noqa: S608
        decided = seen.append_column("chain", _decided(seen, text))
        database.register("decided", decided)
        same = " AND ".join(f's."{name}" IS NOT DISTINCT FROM d."{name}"' for name in columns)
        database.execute(
            f"COPY (SELECT s.browse_seq, s.message_key, d.chain FROM {files} s"  # noqa: S608
            f" JOIN decided d ON {same}) TO '{out}' (FORMAT parquet)"
        )


def polars(_: Any, directory: str, text: str, out: Path) -> None:
    """Decide about distinct combinations and join them back."""
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars as pl  # noqa: PLC0415

    columns = list(parse(text).columns)
    rows = pl.scan_parquet(f"{directory}/headers/*.parquet")
    seen = rows.select(columns).unique().collect(engine="streaming")
    decided = seen.with_columns(
        pl.Series("chain", _decided(seen.to_arrow().cast(_plain(seen)), text))
    )
    found = rows.select("browse_seq", "message_key", *columns).join(
        decided.lazy(), on=columns, nulls_equal=True
    )
    found.select("browse_seq", "message_key", "chain").sink_parquet(out)


def python_s(directory: str, text: str, messages: int) -> float:
    """Estimate the seconds of one process from a part of the messages."""
    table = parse(text)
    needed = [*table.columns, "reply_to_q", "reply_to_q_mgr", "dlh_dest_q_name"]
    columns = sorted({*needed, "dlh_dest_q_mgr_name", "browse_seq"})
    started = time.process_time()
    done = 0
    for part in sorted(Path(directory, "headers").glob("*.parquet")):
        for batch in pq.ParquetFile(part).iter_batches(columns=columns, batch_size=1000):
            for row in batch.to_pylist():
                [resolve(template, row) for template in steps_for(table, row)]
                done += 1
            if time.process_time() - started > PYTHON_S:
                return (time.process_time() - started) / done * messages
    return time.process_time() - started


def steps_a_message(plan: Path) -> float:
    """Return the mean number of steps of a message in a plan."""
    rows = lengths = 0
    for part in plan.glob("*.parquet"):
        held = pq.ParquetFile(part, read_dictionary=["steps"]).read(columns=["steps"])["steps"]
        rows += len(held)
        for each in held.value_counts().to_pylist():
            lengths += len(steps_of_text(each["values"])) * each["counts"]
    return lengths / max(rows, 1)


def _decided(seen: pa.Table, text: str) -> pa.Array:
    """Return the ordinals of the rules that match each distinct combination."""
    from mqdlq.evaluation.value_masks import ValueMasks, encoded  # noqa: PLC0415

    masks = ValueMasks(parse(text))
    standing = []
    for column in masks.columns:
        values, codes = encoded(seen[column].combine_chunks())
        standing.append((masks.bits_of_values(column, values), codes))
    known: dict[bytes, list[int]] = {}
    chains = []
    for bits in masks.combined(seen.num_rows, standing):
        code = bits.tobytes()
        if code not in known:
            known[code] = [rule.ordinal for rule in masks.rules(bits.tolist())]
        chains.append(known[code])
    return pa.array(chains, pa.list_(pa.int32()))


def _plain(seen: Any) -> pa.Schema:
    """Return a schema of plain strings, which Polars exports as views."""
    held = seen.to_arrow().schema
    kinds = [pa.int32() if pa.types.is_integer(field.type) else pa.string() for field in held]
    return pa.schema(list(zip(held.names, kinds, strict=True)))
