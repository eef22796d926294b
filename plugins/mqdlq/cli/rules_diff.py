"""`mqdlq rules diff`: two rules tables in; what differs, and for which messages, out."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from mqdlq import home, lake
from mqdlq.cli.files import Format, name_of, parse_table
from mqdlq.cli.treatments import Treatments, columns_needed, compare_treatments
from mqdlq.errors import LakeError
from mqdlq.rules import Comparison, RuleChange, RulesError, RulesTable, compare
from mqdlq.rules.comparing import rule_text

USAGE = 2


def diff(
    old: Annotated[
        typer.FileBinaryRead, typer.Argument(metavar="OLD", help="The table as it was.")
    ],
    new: Annotated[typer.FileBinaryRead, typer.Argument(metavar="NEW", help="The table as it is.")],
    snapshots: Annotated[
        list[str] | None,
        typer.Option(
            "--snapshot",
            metavar="ID|DIR",
            help="A snapshot whose messages to ask about, by its id or its directory; repeatable.",
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.TEXT,
) -> None:
    """Compare what two rules tables mean, and what they make of the messages of snapshots.

    How they are written does not matter. Ends with 0 if they mean the same, with 1 if they differ
    in anything, with 2 if called wrongly or a table or snapshot cannot be read.

    Example: mqdlq rules diff old.rules new.rules --snapshot 20261121T120000Z-1a2b3c4d
    """
    try:
        before, after = parse_table(old), parse_table(new)
        asked = [_treatments(snapshot, before, after) for snapshot in snapshots or ()]
    except (RulesError, LakeError) as error:
        typer.echo(error, err=True)
        raise typer.Exit(USAGE) from None
    found = compare(before, after)
    if output is Format.JSON:
        typer.echo(json.dumps(_as_json(found, asked), indent=2))
    else:
        typer.echo("\n".join(_as_text((name_of(old), name_of(new)), found, asked)))
    raise typer.Exit(int(not found.is_same))


def _treatments(
    snapshot: str, old: RulesTable, new: RulesTable
) -> tuple[lake.SnapshotManifest, Treatments]:
    directory = snapshot.rstrip("/")
    if "/" not in directory:
        directory = lake.find_snapshot(home.lake(), directory)
    manifest = lake.read_manifest(directory)
    rows = lake.snapshot_rows(directory, columns_needed(old, new))
    return manifest, compare_treatments(old, new, rows, nul_as_blank=manifest.nul_as_blank)


def _as_json(
    found: Comparison, asked: list[tuple[lake.SnapshotManifest, Treatments]]
) -> dict[str, Any]:
    return {
        "same": found.is_same,
        "control": [
            {"keyword": keyword, "old": old or None, "new": new or None}
            for keyword, old, new in found.control
        ],
        "rules": [_change_as_json(change) for change in found.rules],
        "snapshots": [
            {
                "snapshot_id": manifest.snapshot_id,
                "messages": treatments.messages,
                "different": treatments.different,
                "matrix": [
                    {
                        "old": cell.old,
                        "new": cell.new,
                        "messages": cell.messages,
                        "samples": cell.samples,
                    }
                    for cell in treatments.cells
                ],
            }
            for manifest, treatments in asked
        ],
    }


def _change_as_json(change: RuleChange) -> dict[str, Any]:
    old, new = (
        rule and {"line": rule.line, "rule": rule_text(rule)} for rule in (change.old, change.new)
    )
    return {"change": change.change, "old": old, "new": new}


def _as_text(
    names: tuple[str, str],
    found: Comparison,
    asked: list[tuple[lake.SnapshotManifest, Treatments]],
) -> list[str]:
    lines = [f"{names[0]} and {names[1]} {'mean the same' if found.is_same else 'differ'}"]
    lines += [
        f"{keyword}: {old or 'default'} -> {new or 'default'}"
        for keyword, old, new in found.control
    ]
    for change in found.rules:
        lines += _change_as_text(change)
    for manifest, treatments in asked:
        lines += ["", *_treatments_as_text(manifest, treatments)]
    return lines


def _change_as_text(change: RuleChange) -> list[str]:
    rules = [rule for rule in (change.old, change.new) if rule]
    lines = " -> ".join(str(rule.line) for rule in rules)
    texts = list(dict.fromkeys(rule_text(rule) for rule in rules))
    return [f"{change.change}, line {lines}: {texts[0]}", *(f"    -> {text}" for text in texts[1:])]


def _treatments_as_text(manifest: lake.SnapshotManifest, treatments: Treatments) -> list[str]:
    lines = [
        (
            f"snapshot {manifest.snapshot_id}: {treatments.different} of {treatments.messages}"
            " messages are treated differently"
        )
    ]
    for cell in treatments.cells:
        samples = ", ".join(map(str, cell.samples))
        more = ", ..." if cell.messages > len(cell.samples) else ""
        lines += [
            f"  {cell.messages}: {cell.old}",
            f"    -> {cell.new}",
            f"    browse_seq {samples}{more}",
        ]
    return lines
