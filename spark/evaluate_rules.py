"""The evaluation as a Spark application: finished snapshots in, a finished plan out.

    spark-submit evaluate_rules.py --snapshot DIRECTORY --plan DIRECTORY

The rules are the ones frozen in the snapshot's manifest, or those of a file. What the one snapshot
of a run has parked under its own rules is settled and gets no plan; of several snapshots, and by
the rules of a file, parked messages are evaluated, too. A plan that is
finished and says the same is left as it is; one that says something else under this name is an
error. What a broken evaluation left in the plan's directory is removed. MQ is not touched.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from decisions import Decided, Question, decide
from mqdlq import lake
from mqdlq.errors import LakeError, MqDlqError
from mqdlq.lake import PlanDescription
from mqdlq.plan import plan_hash as plan_hash_of
from mqdlq.rules import RulesError, RulesTable, parse
from plan_transforms import columns_needed, plan_counts, plan_hash, planned
from snapshot_rows import Snapshot, read_headers, sample_headers
from strategies import Bounds

IN_THE_DRIVER = 10_000
"""Up to so many messages, the plan is read back and hashed by the driver itself."""


def main(arguments: Sequence[str]) -> int:
    """Evaluate snapshots; return the exit code, 1 with one line on stderr for bad input."""
    parser = argparse.ArgumentParser(
        prog="evaluate_rules.py",
        description="Evaluate rules over snapshots into a plan.",
        epilog="Example: spark-submit evaluate_rules.py --snapshot lake/snapshots/…/s1"
        " --plan lake/plans/s1-abc",
    )
    parser.add_argument(
        "--snapshot",
        required=True,
        action="append",
        help="the directory of a finished snapshot; of several, a message's newest row counts",
    )
    parser.add_argument("--plan", required=True, help="the directory the plan is to stand in")
    parser.add_argument(
        "--rules", help="a file with the rules table, in place of the one frozen in the snapshot"
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="name for each message the rule that won, or the nearest one where none matches",
    )
    options = parser.parse_args(arguments)
    try:
        evaluate(*options.snapshot, plan=options.plan, rules=options.rules, explain=options.explain)
    except (MqDlqError, PySparkException) as error:
        sys.stderr.write(f"evaluate_rules: {str(error).strip().splitlines()[0]}\n")
        return 1
    return 0


def evaluate(
    *directories: str,
    plan: str,
    rules: str | None = None,
    explain: bool = False,
    bounds: Bounds | None = None,
) -> PlanDescription:
    """Evaluate the snapshots in these directories into a plan in another.

    Raises `LakeError` for a snapshot that is not what its manifest says and for a finished plan
    of other content.
    """
    started = time.monotonic()
    place = plan.rstrip("/")
    snapshots = [Snapshot.at(directory) for directory in directories]
    table = rules_of_file(rules) if rules else _frozen_rules(snapshots)
    finished = lake.find_plan(place)
    spark = SparkSession.builder.appName(f"mqdlq {place.rsplit('/', 1)[-1]}").getOrCreate()
    whole = len(snapshots) > 1 or rules is not None
    evaluation = Evaluation(spark, snapshots, table, explain, bounds or Bounds(), whole)
    _say(f"{evaluation.named}: {evaluation.messages} messages, {len(table.rules)} rules")

    decided, rows = evaluation.plan_rows()
    _say(decided.how)
    if finished:
        found, _ = evaluation.hashed(decided, rows)
        _must_agree(finished, found, place)
        _say(f"plan {finished.plan_id} stands already, hash {finished.plan_hash}")
        return finished
    lake.start_plan(place)
    in_order = rows.drop("digest").sortWithinPartitions("browse_seq")
    in_order.write.mode("append").parquet(lake.uri(place))
    _say(f"written after {time.monotonic() - started:.1f} s")
    description = evaluation.described(decided, rows, place)
    lake.publish_plan(place, description)
    _say(f"plan {description.plan_id}: {_totals(description)}, hash {description.plan_hash}")
    _say(f"evaluated in {time.monotonic() - started:.1f} s")
    return description


@dataclass(frozen=True)
class Evaluation:
    """What is evaluated: snapshots by a table, within bounds; `whole` with what is parked."""

    spark: SparkSession
    snapshots: Sequence[Snapshot]
    table: RulesTable
    explain: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    whole: bool = False

    @property
    def messages(self) -> int:
        """How many messages of the snapshots are evaluated, by their manifests."""
        manifests = [snapshot.manifest for snapshot in self.snapshots]
        return sum(each.messages if self.whole else each.counts.full for each in manifests)

    @property
    def named(self) -> str:
        """The snapshots as a person names them."""
        first = self.snapshots[0].manifest.snapshot_id
        return (
            f"snapshot {first}" if len(self.snapshots) == 1 else f"{len(self.snapshots)} snapshots"
        )

    def plan_rows(self) -> tuple[Decided, DataFrame]:
        """Return what was decided and how, and the rows of the plan with their digests."""
        columns = columns_needed(self.table)
        looked_at = [name for name in columns if name not in {"browse_seq", "message_key"}]
        headers = read_headers(self.spark, self.snapshots, columns, whole=self.whole)
        sample, is_all = sample_headers(
            self.snapshots, looked_at, self.bounds.sample, whole=self.whole
        )
        asked = Question(
            self.table,
            sample,
            self.messages,
            is_all,
            nul_as_blank=nul_as_blank(self.snapshots),
            explain=self.explain,
            bounds=self.bounds,
        )
        decided = decide(self.spark, headers, asked)
        return decided, planned(self.spark, decided, self.table)

    def hashed(self, decided: Decided, rows: DataFrame) -> tuple[str, int]:
        """Return the plan's hash and the number of its rows."""
        return plan_hash(rows, in_order=len(self.snapshots) == 1 and not decided.moved)

    def described(self, decided: Decided, rows: DataFrame, place: str) -> PlanDescription:
        """Count and hash the plan; what was written is counted where it stands."""
        written = lake.count_planned(place)
        if written <= IN_THE_DRIVER:
            hashed, evaluated = plan_hash_of(lake.unfinished_messages(place)), written
        else:
            hashed, evaluated = self.hashed(decided, rows)
        if len(self.snapshots) == 1 and written != self.messages:
            raise LakeError(
                f"{self.named} holds {written} messages, its manifest says {self.messages}"
            )
        treatments = decided.treatments
        if treatments is None or treatments.is_open:
            schema = rows.drop("digest").schema
            dispositions, counts = plan_counts(
                self.spark.read.schema(schema).parquet(lake.uri(place))
            )
        else:
            dispositions, counts = treatments.dispositions(), treatments.step_counts()
        if not written == evaluated == sum(dispositions.values()):
            raise LakeError(
                f"{place}: {written} rows were written, {evaluated} hashed and "
                f"{sum(dispositions.values())} counted; the snapshot changed meanwhile"
            )
        return PlanDescription(
            plan_id=place.rsplit("/", 1)[-1],
            plan_hash=hashed,
            snapshot_ids=tuple(snapshot.manifest.snapshot_id for snapshot in self.snapshots),
            rules_digest=self.table.digest,
            messages=written,
            dispositions=dispositions,
            counts=counts,
        )


def _frozen_rules(snapshots: Sequence[Snapshot]) -> RulesTable:
    """Return the table all snapshots were taken with; raise `LakeError` where they differ."""
    digests = {snapshot.manifest.rules_digest for snapshot in snapshots}
    if len(digests) > 1:
        raise LakeError(
            f"the snapshots were taken with {len(digests)} different rules tables; name one with"
            " --rules"
        )
    snapshot = snapshots[0]
    table = _parsed(snapshot.manifest.rules_text, f"the rules of {snapshot.directory}")
    if table.digest != snapshot.manifest.rules_digest:
        raise LakeError(
            f"{snapshot.directory}: its rules have the digest {table.digest}, its manifest says "
            f"{snapshot.manifest.rules_digest}"
        )
    return table


def rules_of_file(place: str) -> RulesTable:
    """Return the table in a file; raise `LakeError` where there is none or it is invalid."""
    text = lake.read_text(place)
    if text is None:
        raise LakeError(f"{place}: no such rules table")
    return _parsed(text, place)


def _parsed(text: str, name: str) -> RulesTable:
    try:
        return parse(text, name)
    except RulesError as error:
        raise LakeError(str(error)) from error


def nul_as_blank(snapshots: Sequence[Snapshot]) -> bool:
    """Say how the snapshots' rules compare NULs; raise `LakeError` where they differ in that."""
    ways = {snapshot.manifest.nul_as_blank for snapshot in snapshots}
    if len(ways) > 1:
        raise LakeError(
            "some of the snapshots take NULs for blanks (nul_as_blank), some do not; evaluate"
            " them apart"
        )
    return ways.pop()


def _must_agree(finished: PlanDescription, found: str, plan: str) -> None:
    if finished.plan_hash != found:
        raise LakeError(
            f"{plan} is a finished plan with hash {finished.plan_hash}, this evaluation has "
            f"{found}; give it another plan id"
        )


def _totals(description: PlanDescription) -> str:
    return ", ".join(f"{count} {name}" for name, count in description.dispositions.items())


def _say(line: str) -> None:
    sys.stdout.write(f"evaluate_rules: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
