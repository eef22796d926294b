"""Compare the evaluation in Spark with a floor and peers; write JSON, a table and a chart.

    python -m benchmarks.spark_evaluation [--cells 10k-easy-100,…] [--rounds N]

Contestants run warm and interleaved: each round runs every contestant once (see
`spark_contestants`). Results are written after each cell and merged with those of other cells, so
the benchmark can be interrupted, or run cell by cell. Because the machine may have other load, the
results include the processor time of all processes of a contestant, and the load average.
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
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import (
    spark_cold,
    spark_contestants,
)
from benchmarks.processor_time import processor_time
from benchmarks.spark_data import rules_text, set_rules, write_snapshot
from benchmarks.spark_results import chart, table
from mqdlq.evaluation.spark_conf import LARGE_FROM, submit_conf, submit_environment
from mqdlq.rules import parse

HERE = Path(__file__).resolve().parent
THREADS = spark_contestants.THREADS
CELLS = {
    "cold-1k-100": ("easy", spark_cold.MESSAGES, 100),
    "10k-easy-100": ("easy", 10_000, 100),
    "1m-easy-10": ("easy", 1_000_000, 10),
    "1m-easy-100": ("easy", 1_000_000, 100),
    "1m-easy-1000": ("easy", 1_000_000, 1000),
    "1m-hard-100": ("hard", 1_000_000, 100),
    "10m-easy-100": ("easy", 10_000_000, 100),
}
CONTESTANTS = ("ours", "floor", "shape", "duckdb", "polars")

Measured = dict[str, dict[str, list[float]]]


def main(arguments: list[str]) -> int:
    """Measure the cells and write `benchmarks/results/spark.{json,md,svg}`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", default=",".join(CELLS), help="which, separated by commas")
    parser.add_argument("--rounds", type=int, default=5, help="how many (10m: three at most)")
    parser.add_argument("--data", default=str(Path(tempfile.gettempdir()) / "mqdlq-benchmark"))
    parser.add_argument("--results", default=str(HERE / "results"))
    options = parser.parse_args(arguments)
    cells = options.cells.split(",")
    unknown = sorted(set(cells) - set(CELLS))
    if unknown:
        parser.error(f"no such cell: {', '.join(unknown)}; there are: {', '.join(CELLS)}")
    results = Path(options.results)
    results.mkdir(exist_ok=True, parents=True)
    out = Path(options.data, f"out-{os.getpid()}")
    out.mkdir(parents=True)
    try:
        for name in cells:
            rounds = min(options.rounds, 3) if name.startswith("10m") else options.rounds
            cell = _cold_cell if name.startswith("cold") else _cell
            _add(results, name, cell(name, rounds, options.data, out))
    finally:
        shutil.rmtree(out)
    print((results / "spark.md").read_text(encoding="utf-8"))
    return 0


def _session() -> Any:
    os.environ.update(submit_environment())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{THREADS}]").appName("benchmark")
    for name, value in submit_conf(LARGE_FROM).items():
        builder = builder.config(name, value)
    return builder.config("spark.log.level", "ERROR").getOrCreate()


def _cell(name: str, rounds: int, data: str, out: Path) -> dict[str, Any]:
    shape, messages, rules = CELLS[name]
    directory, text = _snapshot(name, data)
    spark = _session()
    told: list[str] = []

    def run(one: str, directory: str = directory) -> Callable[[], None]:
        done = getattr(spark_contestants, one)
        return lambda: told.append(str(done(spark, directory, text, out / one)))

    if name.startswith("10m"):  # what is warm after a million messages is so for ten
        small, _ = _snapshot("1m-easy-100", data)
        warm_up = {one: run(one, small) for one in CONTESTANTS}
    else:
        warm_up = {one: run(one) for one in CONTESTANTS}
    work = {one: run(one) for one in CONTESTANTS}
    _rounds(name, 1, warm_up)
    cell = _measured(name, rounds, work)
    python = spark_contestants.python_s(directory, text, messages)
    cell["wall_s"]["python"] = cell["processor_s"]["python"] = [python]
    return {
        "messages": messages,
        "rules": rules,
        "shape": shape,
        "strategy": next(line for line in reversed(told) if line != "None"),
        "steps_a_message": spark_contestants.steps_a_message(out / "ours"),
        **cell,
    }


def _cold_cell(name: str, rounds: int, data: str, out: Path) -> dict[str, Any]:
    from mqdlq.evaluation.decisions import columns_needed  # noqa: PLC0415 (needs Spark's modules)

    shape, messages, rules = CELLS[name]
    directory, text = _snapshot(name, data)
    jobs = spark_cold.jobs(directory, columns_needed(parse(text)), out)
    work = {one: partial(spark_cold.run, job, out) for one, job in jobs.items()}
    _rounds(name, 1, work)
    cell = _measured(name, rounds, work)
    return {"messages": messages, "rules": rules, "shape": shape, **cell}


def _snapshot(name: str, data: str) -> tuple[str, str]:
    """Return the snapshot of a cell, with its rules; generate it if necessary."""
    shape, messages, rules = CELLS[name]
    directory = f"{data}/{shape}-{messages}"
    if not Path(directory, "_MANIFEST.json").is_file():
        print(f"{name}: making {messages} messages", file=sys.stderr, flush=True)
        write_snapshot(data, shape, messages)
    text = rules_text(rules)
    set_rules(directory, f"{shape}-{messages}", messages, text)
    return directory, text


def _measured(name: str, rounds: int, work: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    before = os.getloadavg()[0]
    times = _rounds(name, rounds, work)
    return {"rounds": rounds, "load": [before, os.getloadavg()[0]], **times}


def _rounds(name: str, rounds: int, work: Mapping[str, Callable[[], Any]]) -> Measured:
    """Run all contestants in rounds, and return their wall-clock and processor seconds."""
    times: Measured = {kind: {one: [] for one in work} for kind in ("wall_s", "processor_s")}
    for number in range(rounds):
        for one, done in work.items():
            used, started = processor_time(), time.perf_counter()
            done()
            took = time.perf_counter() - started
            times["wall_s"][one].append(took)
            times["processor_s"][one].append(processor_time() - used)
            print(f"{name} {number} {one} {took:.2f} s", file=sys.stderr, flush=True)
    return times


def _add(results: Path, name: str, cell: dict[str, Any]) -> None:
    """Add a cell to the results, in the order of cells, and draw them again."""
    for kind in ("wall", "processor"):
        medians = {one: statistics.median(took) for one, took in cell[f"{kind}_s"].items()}
        cell[f"{kind}_median_s"] = medians
    place = results / "spark.json"
    found = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {"cells": {}}
    cells = {**found["cells"], name: cell}
    found = {
        "threads": THREADS,
        "cells": {name: cells[name] for name in CELLS if name in cells},
    }
    place.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (results / "spark.md").write_text(table(found), encoding="utf-8")
    (results / "spark.svg").write_text(chart(found), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
