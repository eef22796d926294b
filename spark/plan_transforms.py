"""Transforms of the evaluation: a snapshot's headers in; plan rows, their counts and hash out.

What a message's steps are is asked of the core's own matcher, once per distinct combination of
the values the rules look at. All that is done per message are joins and expressions of Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark user knows

from mqdlq.errors import LakeError
from mqdlq.lake import StepCount
from mqdlq.model import Disposition, MessageClass
from mqdlq.plan import (
    MESSAGES_TO_A_BUCKET,
    ROW_FIELDS,
    STEP_FIELDS,
    TARGET_COLUMNS,
    StepTemplate,
    steps_for,
)
from mqdlq.rules import RulesTable, with_nuls_as_blanks

Transform = Callable[[DataFrame], DataFrame]

MAX_COMBINATIONS: Final = 1_000_000
"""How many combinations the driver takes in; beyond, it gives up with a clear error."""

_TARGET: Final = pa.struct([("literal", pa.string()), ("column", pa.string())])
_TEMPLATE: Final = pa.struct(
    [
        ("rule", pa.int32()),
        ("rule_line", pa.int32()),
        ("action", pa.string()),
        ("target_q", _TARGET),
        ("target_q_mgr", _TARGET),
        ("header", pa.bool_()),
        ("put_authority", pa.string()),
        ("tries", pa.int32()),
    ]
)
_CHAINS: Final = pa.schema([("chain", pa.int32()), ("templates", pa.list_(_TEMPLATE))])


def columns_needed(table: RulesTable) -> list[str]:
    """Name the columns of `headers` an evaluation reads, each once."""
    return sorted({"browse_seq", "message_key", "class", *table.columns, *TARGET_COLUMNS})


@dataclass(frozen=True)
class Decisions:
    """What the matcher says of every distinct combination of the values the rules look at.

    `combinations` has the values under `key`, and in `chain` the row of `chains` that holds their
    steps: many combinations are treated alike.
    """

    key: tuple[str, ...]
    combinations: pa.Table
    chains: pa.Table


def decide(
    headers: DataFrame,
    table: RulesTable,
    *,
    nul_as_blank: bool = False,
    at_most: int = MAX_COMBINATIONS,
) -> Decisions:
    """Bring the distinct combinations to the driver and ask the matcher about each.

    `nul_as_blank` says that NULs are compared as blanks, which IBM's handler does not.
    Raises `LakeError` when there are more of them than the driver can take in.
    """
    key = ("class", *table.columns)
    seen = headers.select(*key).distinct().limit(at_most + 1).toArrow()
    if seen.num_rows > at_most:
        raise LakeError(
            f"the messages differ in more than {at_most} ways in the columns the rules "
            f"look at ({', '.join(table.columns)})"
        )
    numbers: dict[tuple[StepTemplate, ...], int] = {}
    of_each = [
        numbers.setdefault(
            _templates(with_nuls_as_blanks(row) if nul_as_blank else row, table), len(numbers)
        )
        for row in _without_nulls(seen)
    ]
    chains = [
        {"chain": number, "templates": [asdict(template) for template in templates]}
        for templates, number in numbers.items()
    ]
    return Decisions(
        key,
        seen.append_column("chain", pa.array(of_each, pa.int32())),
        pa.Table.from_pylist(chains, schema=_CHAINS),
    )


def with_templates(spark: SparkSession, decisions: Decisions) -> Transform:
    """Add `templates`, the steps of each message with their targets still to be resolved."""
    # Prefixed, since joined by expressions: nulls must meet nulls.
    decided = {name: f"decided_{name}" for name in decisions.key}

    def transform(headers: DataFrame) -> DataFrame:
        combinations = spark.createDataFrame(
            decisions.combinations.rename_columns([*decided.values(), "chain"])
        )
        chains = spark.createDataFrame(decisions.chains)
        same = [F.col(name).eqNullSafe(F.col(other)) for name, other in decided.items()]
        return (
            headers.join(combinations, same)
            .join(F.broadcast(chains), "chain")
            .drop("chain", *decided.values())
        )

    return transform


def planned(queue_manager: str, queue: str) -> Transform:
    """Turn messages with their templates into the rows of the plan, targets resolved."""
    disposition = (
        F.when(F.col("class") != MessageClass.DEAD_LETTER.value, Disposition.UNPROCESSABLE.value)
        .when(F.size("templates") > 0, Disposition.PLANNED.value)
        .otherwise(Disposition.NO_RULE.value)
    )

    def transform(messages: DataFrame) -> DataFrame:
        return messages.select(
            "browse_seq",
            "message_key",
            F.lit(queue_manager).alias("queue_manager"),
            F.lit(queue).alias("queue"),
            disposition.alias("disposition"),
            F.transform("templates", _step).alias("steps"),
        )

    return transform


def plan_hash(plan: DataFrame) -> str:
    """Return what `mqdlq.plan.plan_hash` returns of the same rows.

    The driver gets one digest per 4096 messages.
    """
    in_order = F.array_sort(F.collect_list(F.struct("browse_seq", _row_digest().alias("digest"))))
    buckets = (
        plan.groupBy(F.floor(F.col("browse_seq") / MESSAGES_TO_A_BUCKET).alias("bucket"))
        .agg(F.sha2(F.array_join(in_order["digest"], ""), 256).alias("digest"))
        .collect()
    )
    whole = sha256()
    for _, digest in sorted(buckets):
        whole.update(digest.encode())
    return whole.hexdigest()


def plan_counts(plan: DataFrame) -> tuple[dict[str, int], tuple[StepCount, ...]]:
    """Count the messages by disposition, and the planned ones by their first step."""
    first = F.get("steps", F.lit(0))
    what = ("rule", "rule_line", "action", "target_q", "target_q_mgr")
    rows = plan.groupBy("disposition", *(first[name].alias(name) for name in what)).count()
    dispositions = {disposition.value: 0 for disposition in Disposition}
    counts = []
    for row in rows.collect():
        dispositions[row["disposition"]] += row["count"]
        if row["disposition"] == Disposition.PLANNED.value:
            counts.append(StepCount(*row[1:]))
    return dispositions, tuple(
        sorted(counts, key=lambda count: (count.rule, count.target_q, count.target_q_mgr))
    )


def _without_nulls(seen: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the combinations as the matcher takes them: an absent value is blank or 0."""
    blanks = {field.name: "" if pa.types.is_string(field.type) else 0 for field in seen.schema}
    for row in seen.to_pylist():
        yield {name: blanks[name] if value is None else value for name, value in row.items()}


def _templates(row: Mapping[str, Any], table: RulesTable) -> tuple[StepTemplate, ...]:
    return steps_for(table, row) if row["class"] == MessageClass.DEAD_LETTER.value else ()


def _step(template: Column) -> Column:
    """Resolve one template, as `mqdlq.plan.resolve` does."""
    return F.struct(
        *(
            (
                _name(template[name]) if name in {"target_q", "target_q_mgr"} else template[name]
            ).alias(name)
            for name in STEP_FIELDS
        )
    )


def _name(target: Column) -> Column:
    """Take the name from the message's column where the target names one; MQ ends it at a NUL."""
    written = F.coalesce(target["literal"], F.lit(""))
    for column in TARGET_COLUMNS:
        held = F.rtrim(F.substring_index(F.coalesce(F.col(column), F.lit("")), "\0", 1))
        written = F.when(target["column"] == column, held).otherwise(written)
    return written


def _row_digest() -> Column:
    """Digest a row's text, which is that of `mqdlq.plan.row_text`."""
    row = [
        _measured(F.lower(F.hex(name)) if name == "message_key" else F.col(name))
        for name in ROW_FIELDS
    ]
    steps = F.transform(
        "steps", lambda step: F.concat(*(_measured(step[name]) for name in STEP_FIELDS))
    )
    return F.sha2(F.concat(*row, _measured(F.size("steps")), F.array_join(steps, "")), 256)


def _measured(value: Column) -> Column:
    text = value.cast("string")
    return F.concat(F.length(text).cast("string"), F.lit(":"), text)
