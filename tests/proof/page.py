"""Write docs/proved-on.md from the committed results, and from the records of owners.

``python -m tests.proof.page [DIRECTORY]`` (`make proved-on RESULTS=DIRECTORY`) first takes over the
results in that directory and below it. In a GitHub workflow the table is also the summary of the
run.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.proof.cells import EMBEDDED, PROOFS, Cell, cells
from tests.proof.results import FILE, Counts, Result, merge, read_all
from tests.support.paths import ROOT

PAGE: Final = ROOT / "docs" / "proved-on.md"
RESULTS: Final = Path(__file__).with_name("proved")
RECORDS: Final = Path(__file__).with_name("records")
TRANSPORTS: Final = {EMBEDDED: "in the process", "client": "TCP", "tls": "TCP with TLS"}
SUMMARY: Final = "GITHUB_STEP_SUMMARY"


def document() -> str:
    """Return the page with its two tables written again; the text around them stays."""
    text = PAGE.read_text(encoding="utf-8")
    parts = {"results": table(read_all(RESULTS)), "commands": _commands(), "records": _records()}
    for name, rows in parts.items():
        text, places = re.subn(
            rf"(<!-- {name}\b.*?-->\n).*?(<!-- end -->)", rf"\1\n{rows}\n\2", text, flags=re.DOTALL
        )
        assert places == 1, f"{PAGE} has no place for {name}"
    return text


def table(results: Mapping[str, Result]) -> str:
    """Return a row for each cell, and for each result that is of no cell."""
    wanted = {cell.name: cell for cell in cells()}
    known = {**wanted, **{name: result.cell for name, result in results.items()}}
    titles = ["queue manager", "client", "transport", *PROOFS.values(), "run"]
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    lines += [_row(cell, results.get(name)) for name, cell in known.items()]
    return "\n".join(lines) + "\n"


def _row(cell: Cell, result: Result | None) -> str:
    if result is None:
        missing = ["not yet run"] * len(PROOFS)
        words = [_queue_manager(cell), cell.client, TRANSPORTS[cell.transport], *missing, ""]
    else:
        level = ".".join(str(int(part)) for part in _pairs(result.version))
        words = [
            f"{_queue_manager(cell)} ({level}, {result.platform})",
            f"{cell.client} {result.client_version}"
            + (f" with MQ client {result.mq_client}" if result.mq_client else ""),
            TRANSPORTS[cell.transport] + (f", {result.cipher}" if result.cipher else ""),
            *(_counts(result.proofs.get(name)) for name in PROOFS),
            f"{result.date}, mqdlq {result.mqdlq}",
        ]
    return f"| {' | '.join(words)} |"


def _queue_manager(cell: Cell) -> str:
    return "embedded" if cell.queue_manager == EMBEDDED else f"IBM MQ {cell.queue_manager}"


def _pairs(version: str) -> list[str]:
    return [version[place : place + 2] for place in range(0, len(version), 2)]


def _counts(counts: Counts | None) -> str:
    if counts is None:
        return "not yet run"
    failed = f"**{counts.failed} failed**, " if counts.failed else ""
    skipped = f", {counts.skipped} skipped" if counts.skipped else ""
    return f"{failed}{counts.passed} passed{skipped}"


def _commands() -> str:
    head = "| queue manager | client | transport | command |\n|---|---|---|---|\n"
    return head + "".join(
        f"| {_queue_manager(cell)} | {cell.client} | {TRANSPORTS[cell.transport]}"
        f" | `{cell.command}` |\n"
        for cell in cells()
    )


def read_records() -> dict[str, dict[str, Any]]:
    """Return the records of `mqdlq certify` by the names of their files."""
    return {
        file.stem: json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(RECORDS.glob("*.json"))
    }


def _records() -> str:
    head = "| record | queue manager | client | agree | differ | skipped | run |\n"
    rows = [
        f"| [{name}](../tests/proof/records/{name}.json) | level {one['command_level']}"
        f" on {one['platform']} | {one['client']} {one['client_version']}, {one['transport']}"
        f" | {one['agrees']} | {_differing(one)} | {one['skipped']}"
        f" | {one['at'][:10]}, mqdlq {one['mqdlq']} |\n"
        for name, one in read_records().items()
    ]
    return head + "|---|---|---|---|---|---|---|\n" + "".join(rows)


def differences(record: Mapping[str, Any]) -> list[str]:
    """Return the names of the behaviours that differ in a record."""
    return [one["name"] for one in record["behaviours"] if one["result"] == "differs"]


def _differing(record: Mapping[str, Any]) -> str:
    return f"**{', '.join(differences(record))}**" if record["differs"] else "0"


def main() -> int:
    """Take over the results that the command line names, and write the page."""
    for given in map(Path, sys.argv[1:]):
        found = sorted(given.rglob(FILE))
        if not found:
            sys.stderr.write(f"{given} holds no {FILE}; `make prove` writes one\n")
            return 1
        try:
            names = merge(found, RESULTS)
        except ValueError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        sys.stdout.write(f"results of {', '.join(names)}\n")
    PAGE.write_text(document(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
    if summary := os.environ.get(SUMMARY):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(table(read_all(RESULTS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
