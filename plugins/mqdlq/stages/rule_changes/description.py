"""Describe a proposed change of a rules table for its reviewers."""

from __future__ import annotations

from mqdlq.causes import Cause
from mqdlq.stages.report.wording import count, period, place, visible
from mqdlq.stages.rule_changes.backtest import Backtest
from mqdlq.stages.rule_changes.proposal import Proposal

_MOST_CELLS = 20


def describe_change(name: str, cause: Cause, proposal: Proposal, tested: Backtest) -> str:
    """Return a text for a merge request that adds rules for a cause to the table `name`."""
    where = "" if cause.dest_q_name is None else place(cause.dest_q_name, cause.dest_q_mgr_name)
    subject = f"Handle {cause.reason_text}" + (f" at {where}" if where else "")
    at = f"at line {proposal.first}"
    if proposal.table.extensions:
        at = f"before rule {proposal.before.ordinal}" if proposal.before else "at the end"
    lines = [subject, "", f"Adds to {visible(name)}, {at}:", ""]
    lines += [f"    {line.rstrip()}" for line in proposal.added_text.splitlines()]
    lines += ["", *_describe_backtest(tested), "", *_describe_findings(proposal)]
    return "".join(f"{line}\n" for line in lines)


def _describe_backtest(tested: Backtest) -> list[str]:
    used, found = tested.snapshots.used, tested.treatments
    if not used:
        return ["Not backtested: there is no snapshot."]
    when = period(used[-1].manifest.taken_at, used[0].manifest.taken_at)
    tested_with = f"{count(len(used), 'snapshot')}, taken {when}"
    result = f"{found.different:,} of {count(found.messages, 'message')} treated differently."
    lines = [f"Backtest over {tested_with}: {result}"]
    lines += [
        f"- {cell.messages:,}: {cell.old} -> {cell.new}" for cell in found.cells[:_MOST_CELLS]
    ]
    if len(found.cells) > _MOST_CELLS:
        lines.append(f"- and {count(len(found.cells) - _MOST_CELLS, 'other change')}")
    if tested.snapshots.skipped:
        lines.append(f"Skipped: {count(len(tested.snapshots.skipped), 'snapshot')}.")
    return lines


def _describe_findings(proposal: Proposal) -> list[str]:
    new = [one.diagnostic for one in proposal.findings if one.is_new]
    if not new:
        return ["The rules bring no warning of the linter."]
    lines = ["Warnings of the linter:"]
    return lines + [f"- line {one.line}: {one.message} [{one.code}]" for one in new]
