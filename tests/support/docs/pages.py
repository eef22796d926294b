"""Fill in the parts of documents that the code declares: `make docs-pages`, and the site.

A page of `PAGES` holds its prose and marks. What stands between `<!-- part: NAME -->` and
`<!-- end -->` is written by `make docs-pages`; it is committed, since people read these pages where
there is no site. `<!-- built: NAME -->` is filled in on the site only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from mqdlq.airflow import params
from mqdlq.controls.evidence import Evidence
from mqdlq.controls.fixed import UntilFixed
from mqdlq.controls.limits import ClosedWindow, DestinationLimits, Limits
from mqdlq.controls.loops import Loops
from mqdlq.controls.ramp import Breaker, Ramp
from mqdlq.controls.repair import Repairs
from mqdlq.controls.sequences import Sequences
from mqdlq.handlers import Handler
from mqdlq.handlers.configuration import KEYS
from mqdlq.handlers.operation import Alerts, ApprovalGuards, Notification
from tests.peers import suites
from tests.support.coverage import mqi_coverage
from tests.support.docs import (
    agents,
    command_line,
    errors,
    handler,
    metrics,
    parameters,
    schemas,
    snapshot_schema,
    versions,
)
from tests.support.paths import ROOT

DIRECTORY: Final = ROOT / "docs" / "reference"
PAGES: Final = (*sorted(DIRECTORY.glob("*.md")), ROOT / "docs" / "how-to" / "agents.md")
PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "handler keys": partial(handler.keys, Handler, KEYS),
    "approval": partial(handler.keys, ApprovalGuards),
    "alerts": partial(handler.keys, Alerts),
    "notify": partial(handler.keys, Notification),
    "events": handler.events,
    "evidence": partial(handler.keys, Evidence),
    "limits": partial(handler.keys, Limits),
    "destinations": partial(handler.keys, DestinationLimits),
    "closed": partial(handler.keys, ClosedWindow),
    "hold_until_fixed": partial(handler.keys, UntilFixed),
    "loops": partial(handler.keys, Loops),
    "ramp": partial(handler.keys, Ramp),
    "breaker": partial(handler.keys, Breaker),
    "sequences": partial(handler.keys, Sequences),
    "repair": partial(handler.keys, Repairs),
    "other suites": suites.table,
    "run parameters": partial(parameters.parameters, params.SCHEMAS),
    "restoration parameters": lambda: parameters.parameters(params.schemas(handlers=())),
    "agent tools": agents.tools,
    "agent prompts": agents.prompts_and_resources,
    "agent triage": agents.triage,
    "commands": command_line.sections,
    "errors": errors.tables,
    "metrics": metrics.metrics,
    "versions": versions.versions,
    "cells": versions.cells,
    "columns of headers": snapshot_schema.headers,
    "columns of settled": snapshot_schema.settled,
    "columns of payload": snapshot_schema.payload,
    "fields of a manifest": snapshot_schema.manifest,
    "ledger tables": schemas.ledger_tables,
    "report records": schemas.report_records,
    "coverage of the MQI": mqi_coverage.generated,
}
_PART: Final = re.compile(r"(<!-- part: ([^\n]+) -->\n).*?(\n<!-- end -->\n)", re.DOTALL)
_BUILT: Final = re.compile(r"<!-- built: (.+) -->\n")


def filled(text: str) -> str:
    """Return a page with its parts as the code declares them now."""
    return _PART.sub(lambda at: f"{at[1]}\n{PARTS[at[2]]().strip()}\n{at[3]}", text)


def built(text: str) -> str:
    """Return a page as the site shows it."""
    return _BUILT.sub(lambda at: f"{PARTS[at[1]]().strip()}\n", text)


def main() -> int:
    """Write the pages."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            path.write_text(new, encoding="utf-8")
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
