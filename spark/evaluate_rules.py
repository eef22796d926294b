"""The evaluation as a Spark application: a finished snapshot in, a finished plan out.

    spark-submit evaluate_rules.py --snapshot DIRECTORY --plan DIRECTORY

The rules are the ones frozen in the snapshot's manifest. A plan that is finished and says the
same is left as it is; one that says something else under this name is an error. What a broken
evaluation left in the plan's directory is removed. MQ is not touched.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mqdlq import lake
from mqdlq.errors import LakeError, MqDlqError
from mqdlq.lake import PlanDescription, SnapshotManifest
from mqdlq.rules import RulesError, RulesTable, parse
from plan_transforms import (
    columns_needed,
    decide,
    plan_counts,
    plan_hash,
    planned,
    with_templates,
)


def main(arguments: Sequence[str]) -> int:
    """Evaluate one snapshot; return the exit code, 1 with one line on stderr for bad input."""
    parser = argparse.ArgumentParser(
        prog="evaluate_rules.py", description="Evaluate the rules of a snapshot into a plan."
    )
    parser.add_argument("--snapshot", required=True, help="the directory of a finished snapshot")
    parser.add_argument("--plan", required=True, help="the directory the plan is to stand in")
    options = parser.parse_args(arguments)
    try:
        evaluate(options.snapshot.rstrip("/"), options.plan.rstrip("/"))
    except (MqDlqError, PySparkException) as error:
        sys.stderr.write(f"evaluate_rules: {str(error).strip().splitlines()[0]}\n")
        return 1
    return 0


def evaluate(snapshot: str, plan: str) -> PlanDescription:
    """Evaluate the snapshot in one directory into a plan in another.

    Raises `LakeError` for a snapshot that is not what its manifest says and for a finished plan
    of other content.
    """
    started = time.monotonic()
    manifest = lake.read_manifest(snapshot)
    table = _frozen_rules(manifest, snapshot)
    finished = lake.find_plan(plan)
    spark = SparkSession.builder.appName(f"mqdlq {plan.rsplit('/', 1)[-1]}").getOrCreate()
    _say(f"snapshot {manifest.snapshot_id}: {manifest.messages} messages, {len(table.rules)} rules")

    rows = plan_rows(spark, snapshot, manifest, table)
    if finished:
        _must_agree(finished, plan_hash(rows), plan)
        _say(f"plan {finished.plan_id} stands already, hash {finished.plan_hash}")
        return finished
    lake.start_plan(plan)
    rows.sortWithinPartitions("browse_seq").write.mode("append").parquet(lake.uri(plan))
    description = _described(spark.read.schema(rows.schema).parquet(lake.uri(plan)), manifest, plan)
    lake.publish_plan(plan, description)
    _say(f"plan {description.plan_id}: {_totals(description)}, hash {description.plan_hash}")
    _say(f"evaluated in {time.monotonic() - started:.1f} s")
    return description


def plan_rows(
    spark: SparkSession, snapshot: str, manifest: SnapshotManifest, table: RulesTable
) -> DataFrame:
    """Return the rows of the plan, in no order; raise `LakeError` where a column is missing."""
    headers = spark.read.parquet(f"{lake.uri(snapshot)}/headers")
    columns = columns_needed(table)
    missing = sorted(set(columns) - set(headers.columns))
    if missing:
        raise LakeError(f"{snapshot}: its headers lack the columns {', '.join(missing)}")
    messages = headers.select(*columns)
    decisions = decide(messages, table, nul_as_blank=manifest.nul_as_blank)
    _say(
        f"{decisions.combinations.num_rows} distinct combinations of what the rules look at, "
        f"{decisions.chains.num_rows} different chains of steps"
    )
    return messages.transform(with_templates(spark, decisions)).transform(
        planned(manifest.queue_manager, manifest.queue)
    )


def _frozen_rules(manifest: SnapshotManifest, snapshot: str) -> RulesTable:
    try:
        table = parse(manifest.rules_text, f"the rules of {snapshot}")
    except RulesError as error:
        raise LakeError(str(error)) from error
    if table.digest != manifest.rules_digest:
        raise LakeError(
            f"{snapshot}: its rules have the digest {table.digest}, its manifest says "
            f"{manifest.rules_digest}"
        )
    return table


def _must_agree(finished: PlanDescription, found: str, plan: str) -> None:
    if finished.plan_hash != found:
        raise LakeError(
            f"{plan} is a finished plan with hash {finished.plan_hash}, this evaluation has "
            f"{found}; give it another plan id"
        )


def _described(written: DataFrame, manifest: SnapshotManifest, plan: str) -> PlanDescription:
    """Count and hash what was written, read back from where it stands."""
    dispositions, counts = plan_counts(written)
    messages = sum(dispositions.values())
    if messages != manifest.messages:
        raise LakeError(
            f"snapshot {manifest.snapshot_id} holds {messages} messages, its manifest says "
            f"{manifest.messages}"
        )
    return PlanDescription(
        plan_id=plan.rsplit("/", 1)[-1],
        plan_hash=plan_hash(written),
        snapshot_ids=(manifest.snapshot_id,),
        rules_digest=manifest.rules_digest,
        messages=messages,
        dispositions=dispositions,
        counts=counts,
    )


def _totals(description: PlanDescription) -> str:
    return ", ".join(f"{count} {name}" for name, count in description.dispositions.items())


def _say(line: str) -> None:
    sys.stdout.write(f"evaluate_rules: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
