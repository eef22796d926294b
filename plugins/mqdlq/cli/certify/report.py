"""The report of `mqdlq certify`, as text and as JSON.

It holds neither messages nor user ids nor hosts; names of queues and queue managers can be masked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mqdlq.mqi.connecting.settings import ConnectionSettings
from mqdlq.stages.certify import Certification, Finding, Verdict

VERSION: Final = 1
MASKED: Final = "(masked)"
_INDENT: Final = " " * 9


def heading(found: Certification, *, mask: bool) -> str:
    """Return the line that begins the text."""
    one = found.versions
    name = MASKED if mask else one.queue_manager
    return (
        f"queue manager {name}, command level {one.command_level} on {one.platform},"
        f" through {one.client} {one.client_version}; mqdlq {one.mqdlq}"
    )


def finding_lines(finding: Finding) -> Iterator[str]:
    """Yield the lines of one finding."""
    remark = f" ({finding.remark})" if finding.remark else ""
    yield f"{finding.verdict:9}{finding.behaviour.statement}{remark}"
    if finding.verdict is Verdict.DIFFERS:
        yield f"{_INDENT}expected: {finding.expected}"
        yield f"{_INDENT}seen:     {finding.seen}"
        yield f"{_INDENT}means:    {finding.behaviour.consequence}"


def summary(found: Certification) -> str:
    """Return the line that ends the text."""
    agree, differ, skipped = (found.count(verdict) for verdict in Verdict)
    return f"{agree} agree, {differ} {'differs' if differ == 1 else 'differ'}, {skipped} skipped."


def as_json(found: Certification, settings: ConnectionSettings, *, mask: bool) -> dict[str, Any]:
    """Return the report for a file, which can be sent to others."""
    one = found.versions
    return {
        "report": "mqdlq certify",
        "version": VERSION,
        "at": found.at.isoformat(timespec="seconds"),
        "queue_manager": MASKED if mask else one.queue_manager,
        "scratch_prefix": MASKED if mask else found.prefix,
        "command_level": one.command_level,
        "platform": one.platform,
        "transport": settings.transport,
        "client": one.client,
        "client_version": one.client_version,
        "mqdlq": one.mqdlq,
        **{str(verdict): found.count(verdict) for verdict in Verdict},
        "behaviours": [_finding_as_json(finding) for finding in found.findings],
    }


def _finding_as_json(finding: Finding) -> dict[str, str]:
    shown = {
        "name": finding.behaviour.name,
        "statement": finding.behaviour.statement,
        "result": str(finding.verdict),
        "expected": finding.expected,
        "seen": finding.seen,
        "remark": finding.remark,
        "means": finding.behaviour.consequence if finding.verdict is Verdict.DIFFERS else "",
    }
    return {name: text for name, text in shown.items() if text}
