"""The evaluation in Spark against a floor and peers: cells in, a JSON file, a table, a chart out.

    python benchmarks/spark_evaluation.py [--quick] [--cells 10k-easy-100,…] [--repetitions N]

Everything is measured warm and interleaved: each round runs every contestant once. All read the
same Parquet files and use two threads.

- ours: the whole evaluation, from the snapshot to the finished plan with its hash and counts;
  `ours_written` is the part of it up to the last row written.
- floor: Spark reads the same columns and writes as many rows, one number made of all columns.
- duckdb, polars: distinct combinations, the same matcher on each distinct value, joined back, the
  numbers of the matching rules written. They make no plan, no targets and no hash.
- python: one process reads row by row, asks the matcher and makes the steps, as runmqdlq would;
  extrapolated from what it does in some seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "spark"), str(HERE)]

from spark_data import rules_text, set_rules, write_snapshot  # noqa: E402

from mqdlq.plan import resolve, steps_for  # noqa: E402
from mqdlq.rules import parse  # noqa: E402
from mqdlq.spark_conf import LARGE_FROM, submit_conf, submit_environment  # noqa: E402

THREADS = 2
CELLS = {
    "10k-easy-100": ("easy", 10_000, 100),
    "1m-easy-10": ("easy", 1_000_000, 10),
    "1m-easy-100": ("easy", 1_000_000, 100),
    "1m-easy-1000": ("easy", 1_000_000, 1000),
    "1m-hard-100": ("hard", 1_000_000, 100),
    "10m-easy-100": ("easy", 10_000_000, 100),
}
PYTHON_S = 10
TARGETS = {
    "1m-easy-100": ("floor", 1.5),
    "10m-easy-100": ("floor", 1.5),
    "1m-hard-100": ("floor", 4.0),
}


def main(arguments: list[str]) -> int:
    """Measure the cells and write `benchmarks/results/spark.{json,md,svg}`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", default=",".join(CELLS), help="which, separated by commas")
    parser.add_argument("--repetitions", type=int, default=5, help="rounds (10m: three)")
    parser.add_argument("--data", default=str(Path(tempfile.gettempdir()) / "mqdlq-benchmark"))
    parser.add_argument("--results", default=str(HERE / "results"))
    options = parser.parse_args(arguments)
    cells = options.cells.split(",")
    unknown = sorted(set(cells) - set(CELLS))
    if unknown:
        parser.error(f"no such cell: {', '.join(unknown)}; there are: {', '.join(CELLS)}")
    spark = _session()
    results = Path(options.results)
    results.mkdir(exist_ok=True, parents=True)
    found: dict[str, Any] = {"threads": THREADS, "load_at_start": os.getloadavg()[0], "cells": {}}
    for name in cells:
        rounds = min(options.repetitions, 3) if name.startswith("10m") else options.repetitions
        found["cells"][name] = _cell(spark, name, rounds, options.data)
        _write(results, found)
    print((results / "spark.md").read_text(encoding="utf-8"))
    return 0


def _session() -> Any:
    os.environ.update(submit_environment())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{THREADS}]").appName("benchmark")
    for name, value in submit_conf(LARGE_FROM).items():
        builder = builder.config(name, value)
    return builder.config("spark.log.level", "ERROR").getOrCreate()


def _cell(spark: Any, name: str, rounds: int, data: str) -> dict[str, Any]:
    shape, messages, rules = CELLS[name]
    directory = f"{data}/{shape}-{messages}"
    if not Path(directory, "_MANIFEST.json").is_file():
        write_snapshot(data, shape, messages)
    text = rules_text(rules)
    set_rules(directory, f"{shape}-{messages}", messages, text)
    out = Path(data, "out")
    work: dict[str, Callable[[], Any]] = {
        "ours": lambda: _ours(directory, out / "ours"),
        "floor": lambda: _floor(spark, directory, text, out / "floor"),
        "duckdb": lambda: _duckdb(directory, text, out / "duckdb.parquet"),
        "polars": lambda: _polars(directory, text, out / "polars.parquet"),
    }
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    times: dict[str, list[float]] = {one: [] for one in work}
    written = []
    how = ""
    for number in range(rounds + 1):  # the first round warms up
        for one, done in work.items():
            started = time.perf_counter()
            told = done()
            took = time.perf_counter() - started
            if number:
                times[one].append(took)
                if one == "ours":
                    written.append(told["written_s"])
            if one == "ours":
                how = told["how"]
            print(f"{name} {number} {one} {took:.2f} s", file=sys.stderr, flush=True)
    steps = _steps_a_message(out / "ours")
    medians = {one: statistics.median(seconds) for one, seconds in times.items()}
    medians["ours_written"] = statistics.median(written)
    medians["python"] = _python(directory, text, messages)
    shutil.rmtree(out)
    return {
        "messages": messages,
        "rules": rules,
        "shape": shape,
        "strategy": how,
        "steps_a_message": steps,
        "rounds": rounds,
        "seconds": times,
        "median_s": medians,
        "to_floor": {one: seconds / medians["floor"] for one, seconds in medians.items()},
    }


def _ours(directory: str, out: Path) -> dict[str, Any]:
    from evaluate_rules import evaluate  # noqa: PLC0415 (needs a session)

    shutil.rmtree(out, ignore_errors=True)
    said = StringIO()
    with redirect_stdout(said):
        evaluate(directory, plan=str(out))
    lines = said.getvalue().splitlines()
    written = next(line for line in lines if "written after" in line)
    return {"how": lines[1], "written_s": float(written.split()[-2])}


def _floor(spark: Any, directory: str, text: str, out: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from plan_transforms import columns_needed  # noqa: PLC0415

    columns = columns_needed(parse(text))
    rows = spark.read.parquet(f"{directory}/headers")
    everything = F.xxhash64(*columns).alias("everything")
    rows.select("browse_seq", "message_key", everything).write.mode("overwrite").parquet(str(out))


def _decided(seen: pa.Table, text: str) -> pa.Array:
    """Return the ordinals of the rules each distinct combination meets."""
    from value_masks import ValueMasks  # noqa: PLC0415

    masks = ValueMasks(parse(text))
    known: dict[bytes, list[int]] = {}
    chains = []
    for bits in masks.of_rows(seen):
        code = bits.tobytes()
        if code not in known:
            known[code] = [rule.ordinal for rule in masks.rules(tuple(bits))]
        chains.append(known[code])
    return pa.array(chains, pa.list_(pa.int32()))


def _duckdb(directory: str, text: str, out: Path) -> None:
    import duckdb  # noqa: PLC0415

    columns = parse(text).columns
    names = ", ".join(f'"{name}"' for name in columns)
    with duckdb.connect() as database:
        database.execute(f"SET threads={THREADS}; SET preserve_insertion_order=false")
        files = f"read_parquet('{directory}/headers/*.parquet')"
        seen = database.execute(f"SELECT DISTINCT {names} FROM {files}").to_arrow_table()  # noqa: S608
        decided = seen.append_column("chain", _decided(seen, text))
        database.register("decided", decided)
        same = " AND ".join(f's."{name}" IS NOT DISTINCT FROM d."{name}"' for name in columns)
        database.execute(
            f"COPY (SELECT s.browse_seq, s.message_key, d.chain FROM {files} s"  # noqa: S608
            f" JOIN decided d ON {same}) TO '{out}' (FORMAT parquet)"
        )


def _polars(directory: str, text: str, out: Path) -> None:
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars as pl  # noqa: PLC0415

    columns = list(parse(text).columns)
    rows = pl.scan_parquet(f"{directory}/headers/*.parquet")
    seen = rows.select(columns).unique().collect(engine="streaming")
    decided = seen.with_columns(
        pl.from_arrow(_decided(seen.to_arrow().cast(_plain(seen)), text)).alias("chain")
    )
    found = rows.select("browse_seq", "message_key", *columns).join(
        decided.lazy(), on=columns, nulls_equal=True
    )
    found.select("browse_seq", "message_key", "chain").sink_parquet(out)


def _plain(seen: Any) -> pa.Schema:
    """Return a schema of plain strings, which Polars exports as views."""
    held = seen.to_arrow().schema
    kinds = [pa.int32() if pa.types.is_integer(field.type) else pa.string() for field in held]
    return pa.schema(list(zip(held.names, kinds, strict=True)))


def _python(directory: str, text: str, messages: int) -> float:
    """Return the seconds one process would take, from what it does in some."""
    table = parse(text)
    needed = [*table.columns, "reply_to_q", "reply_to_q_mgr", "dlh_dest_q_name"]
    columns = sorted({*needed, "dlh_dest_q_mgr_name", "browse_seq"})
    started = time.perf_counter()
    done = 0
    for part in sorted(Path(directory, "headers").glob("*.parquet")):
        for batch in pq.ParquetFile(part).iter_batches(columns=columns, batch_size=1000):
            for row in batch.to_pylist():
                [resolve(template, row) for template in steps_for(table, row)]
                done += 1
            if time.perf_counter() - started > PYTHON_S:
                return (time.perf_counter() - started) / done * messages
    return time.perf_counter() - started


def _steps_a_message(plan: Path) -> float:
    rows = lengths = 0
    for part in plan.glob("*.parquet"):
        steps = pq.read_table(part, columns=["steps"])["steps"]
        rows += len(steps)
        lengths += sum(len(chunk.flatten()) for chunk in steps.chunks)
    return lengths / max(rows, 1)


def _write(results: Path, found: dict[str, Any]) -> None:
    (results / "spark.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (results / "spark.md").write_text(_table(found), encoding="utf-8")
    (results / "spark.svg").write_text(_chart(found), encoding="utf-8")


def _table(found: dict[str, Any]) -> str:
    heads = ("ours", "ours_written", "floor", "duckdb", "polars", "python")
    lines = [
        "# The evaluation in Spark",
        "",
        f"Seconds, medians, {THREADS} threads, warm; in brackets the multiple of the floor.",
        "",
        f"| cell | {' | '.join(heads)} | steps a message |",
        f"|---|{'---:|' * (len(heads) + 1)}",
    ]
    for name, cell in found["cells"].items():
        values = [f"{cell['median_s'][one]:.2f} ({cell['to_floor'][one]:.1f}×)" for one in heads]
        lines.append(f"| {name} | {' | '.join(values)} | {cell['steps_a_message']:.1f} |")
    lines += ["", *_verdicts(found["cells"])]
    return "\n".join(lines) + "\n"


def _verdicts(cells: dict[str, Any]) -> list[str]:
    told = []
    for name, (peer, most) in TARGETS.items():
        if name in cells:
            found = cells[name]["median_s"]["ours"] / cells[name]["median_s"][peer]
            told.append(_verdict(f"{name}, ours to the {peer}", found, most))
    if {"1m-easy-10", "1m-easy-1000"} <= set(cells):
        few, many = (cells[f"1m-easy-{n}"]["median_s"]["ours"] for n in (10, 1000))
        told.append(_verdict("1,000 rules to 10 rules", many / few, 1.5))
    if "10m-easy-100" in cells:
        medians = cells["10m-easy-100"]["median_s"]
        told.append(
            _verdict("10m-easy-100, ours to DuckDB", medians["ours"] / medians["duckdb"], 2)
        )
    return told


def _verdict(what: str, found: float, most: float) -> str:
    return f"- {what}: {found:.2f}×, target {most}×: {'met' if found <= most else 'missed'}"


def _chart(found: dict[str, Any]) -> str:
    """Draw a bar for each contestant of each cell, in multiples of the floor."""
    heads = ("ours", "ours_written", "floor", "duckdb", "polars")
    colours = ("#1b6ca8", "#7fb3d5", "#999999", "#d68910", "#6c3483")
    bars, y = [], 10
    for name, cell in found["cells"].items():
        bars.append(f'<text x="10" y="{y + 12}" font-weight="bold">{name}</text>')
        y += 20
        for head, colour in zip(heads, colours, strict=True):
            ratio = cell["to_floor"][head]
            bars.append(
                f'<text x="20" y="{y + 12}">{head}</text><rect x="120" y="{y + 2}"'
                f' width="{ratio * 60:.0f}" height="12" fill="{colour}"/>'
                f'<text x="{126 + ratio * 60:.0f}" y="{y + 12}">{ratio:.2f}×'
                f" ({cell['median_s'][head]:.2f} s)</text>"
            )
            y += 17
        y += 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="{y}" font-size="12"'
        f' font-family="sans-serif"><rect width="900" height="{y}" fill="white"/>'
        f"{''.join(bars)}</svg>\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
