"""A report as JSON for programs: a `Report` in, a document of a fixed structure out.

The keys are those of the records (`mqdlq.report.records`), with `format`, `version` and `failed`
before them: `verdict` (ok, empty, settled, attention, unfinished, failed), `headline`, `why`,
`run`, `stages` (name to state), `error`, `troubles`, `snapshot`, `plan`, `account` (with `booked`
and `adds_up`), `rules`, `causes`, `people`, `unaccounted`, `timeline`, `attempts` (state to
number), `oldest_left`, `written_at`. Times are ISO 8601 in UTC; outcomes, actions and states are
the ledger's words; what is not known is null or "". A new key may appear within a version, none
changes its meaning.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime

from mqdlq.report.records import Report

FORMAT = "mqdlq-report"
VERSION = 1


def render_json(report: Report) -> str:
    """Return the document as text."""
    document = {"format": FORMAT, "version": VERSION, "failed": report.failed, **asdict(report)}
    document["run"]["duration_s"] = report.run.duration_s
    if report.account is not None:
        account = {"booked": report.account.booked, "adds_up": report.account.adds_up}
        document["account"] |= account
    return json.dumps(document, indent=2, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a report holds no {type(value).__name__}")
