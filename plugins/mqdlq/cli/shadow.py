"""The command `mqdlq shadow`: compare our decisions with what another handler did."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mqdlq import directories
from mqdlq.cli.output import Output, attributes, refusing, write_json
from mqdlq.errors import LakeError
from mqdlq.lake import Snapshot
from mqdlq.tools.shadow import ShadowComparison, Verdict


def shadow(
    before: str, after: str, arrivals: tuple[str, ...] = (), output: Output = "text"
) -> None:
    """Implement `mqdlq shadow`.

    BEFORE holds the rules as they were when it was taken. A message that is still on the queue in
    AFTER, or on a queue of --arrivals, shows what the other handler did with it. A message on none
    of them stays open: it was discarded, taken, expired or put to another queue, and a snapshot
    cannot show which. If our rules would have left it, that differs. A message that another
    application holds in a unit of work is not visible: take AFTER while the other handler has
    nothing to do.

    Take the snapshots by dry runs of the dead-letter queue, before and after the other handler
    runs, and of the queues it puts to, by the names that the rules use. A queue that may be empty
    needs full_snapshot:

      mqdlq run demo --conf '{"dry_run": true, "full_snapshot": true, "input_q": "PAYMENTS.IN"}'

    Exit code 0 if nothing differs; 1 if something does; 2 if a snapshot cannot be read or the
    snapshots do not belong together.

    Takes:
      BEFORE: The snapshot of a dry run, by id or directory.
      AFTER: A later snapshot of the same queue.
      --arrivals ID|DIR: A later snapshot of a queue that messages were sent to; repeatable.

    For example:
      mqdlq shadow 20261121T120000Z-1a2b3c4d 20261121T130000Z-5e6f7a8b
    """
    with refusing(LakeError, prefix=""):
        first, second, *others = [
            Snapshot.named(directories.lake(), name) for name in (before, after, *arrivals)
        ]
        found = ShadowComparison(first, second, others)
    if output == "json":
        names = ("verdict", "said=planned", "happened=observed", "messages", "samples")
        write_json(
            {str(verdict): found.messages(verdict) for verdict in Verdict}
            | {"arrived_since": found.arrived}
            | {"findings": [attributes(finding, *names) for finding in found.findings]}
        )
    else:
        click.echo("\n".join(_as_text(found, first, second, others)))
    raise SystemExit(int(found.messages(Verdict.DIFFERS) > 0))


def _as_text(
    found: ShadowComparison, before: Snapshot, after: Snapshot, arrivals: Sequence[Snapshot]
) -> list[str]:
    first, second = before.manifest, after.manifest
    browsed = sorted(
        {
            queue if queue_manager == first.queue_manager else f"{queue} @ {queue_manager}"
            for queue_manager, queue in (one.queue for one in arrivals)
        }
    )
    day = "" if first.taken_at.date() == second.taken_at.date() else f"{second.taken_at:%Y-%m-%d} "
    lines = [
        (
            f"{first.queue} @ {first.queue_manager}, {first.taken_at:%Y-%m-%d %H:%M:%S} to"
            f" {day}{second.taken_at:%H:%M:%S} UTC; arrivals on {', '.join(browsed) or 'no queue'}"
        ),
        (
            f"{found.messages(Verdict.AGREES)} messages agree, {found.messages(Verdict.DIFFERS)}"
            f" differ, {found.messages(Verdict.OPEN)} are open; {found.arrived} arrived since"
        ),
        "",
    ]
    for finding in found.findings:
        numbers = ", ".join(str(number) for number in finding.samples)
        more = ", …" if finding.messages > len(finding.samples) else ""
        lines += [
            f"{finding.verdict:8}{finding.messages:6}  said  {finding.planned}",
            f"{'':14}  seen  {finding.observed}",
        ]
        if finding.verdict is not Verdict.AGREES:
            lines.append(f"{'':14}        messages {numbers}{more}")
    return lines
